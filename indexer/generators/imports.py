"""What a file brings in from others, as its own text says it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

MOST: Final = 5_000
EVERYTHING: Final = b"*"

_NAME: Final = rb"[\w$\x80-\xff]+"


class Brought(NamedTuple):
    """One module, or name of one, that is brought in, and where that is said."""

    module: bytes
    name: bytes
    alias: bytes
    span: tuple[int, int]
    """Where all of that is said."""
    at: int = -1
    """Where the name itself stands."""


def imports_in(language: str, source: bytes) -> list[Brought]:
    """Everything that a source brings in, in order."""
    reader = _READERS.get(language)
    if reader is None:
        return []
    found = []
    for one in reader(source):
        at = one.span[0] if one.at < 0 else one.at
        found.append(one._replace(module=_clean(one.module), name=_clean(one.name), at=at))
        if len(found) >= MOST:
            break
    return found


def _clean(text: bytes) -> bytes:
    return b"".join(text.split())[:400]


_IMPORT: Final = re.compile(rb"import[ \t(]")
_FROM: Final = re.compile(
    rb"[ \t]*from[ \t]+([.\w\x80-\xff]+)[ \t]+import[ \t]*(\([^()]*\)|[^\n\\]*(?:\\\n[^\n\\]*)*)"
    rb"|[ \t]*import[ \t]+([^\n#]+)"
)
_NAMED: Final = re.compile(rb"(\*|" + _NAME + rb")(?:\s+as\s+(" + _NAME + rb"))?")
_COMMENT: Final = re.compile(rb"#[^\n]*")


def _python(source: bytes) -> Iterator[Brought]:
    for word in _IMPORT.finditer(source):
        found = _FROM.match(source, source.rfind(b"\n", 0, word.start()) + 1)
        if found is None:
            continue
        module, names, plain = found.groups()
        if module is None:
            for part in plain.split(b";")[0].split(b","):
                name, _, alias = part.partition(b" as ")
                if name.strip():
                    called = alias.strip() or name.strip().partition(b".")[0]
                    yield Brought(name, b"", called, found.span())
            continue
        names = _COMMENT.sub(lambda said: b" " * len(said[0]), names)
        for part in _NAMED.finditer(names):
            at = found.start(2) + part.start()
            yield Brought(module, part[1], part[2] or part[1], found.span(), at)


_SCRIPT: Final = re.compile(
    rb"""\b(?:import|export)\b(?!\s*\()([^;'"`()]*?)\bfrom\s*["']([^"'\n]+)["']"""
    rb"""|\bimport\s*["']([^"'\n]+)["']"""
    rb"""|(?:\b(?:const|let|var)\s+([^=;()]{1,400}?)=\s*)?(?:\brequire|\bimport)\s*\(\s*["'`]"""
    rb"""([^"'`\n]+)["'`]\s*\)"""
)


def _script(source: bytes) -> Iterator[Brought]:
    for found in _SCRIPT.finditer(source):
        clause = found[1] if found[2] is not None else found[4]
        module = found[2] or found[3] or found[5]
        listed = list(_bindings(clause or b""))
        for name, alias in listed or [(b"", b"")]:
            yield Brought(module, name, alias, found.span())


def _bindings(clause: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The names of `a, { b, c as d }`, `* as e` and `{ f: g }`."""
    outside, brace, inside = clause.partition(b"{")
    for part in outside.replace(b"type ", b" ").split(b","):
        words = part.split()
        if words[:2] == [EVERYTHING, b"as"] and len(words) == 3:
            yield b"", words[2]
        elif len(words) == 1:
            yield (EVERYTHING, b"") if words[0] == EVERYTHING else (b"default", words[0])
    if brace:
        for part in inside.partition(b"}")[0].split(b","):
            words = [w for w in re.split(rb"\s+as\s+|\s*:\s*|\s+", part.strip()) if w]
            words = words[1:] if words[:1] == [b"type"] and len(words) > 1 else words
            if words:
                yield words[0], words[-1]


_GO: Final = re.compile(
    rb'^[ \t]*(?:import[ \t]+)?(?:([\w.]+)[ \t]+)?"([\w./~-]+)"[ \t]*;?$', re.MULTILINE
)


def _go(source: bytes) -> Iterator[Brought]:
    for found in _GO.finditer(source):
        last = found[2].rpartition(b"/")[2]
        yield Brought(found[2], b"", found[1] or last, found.span())


_DOTTED: Final = re.compile(
    rb"^[ \t]*(?:import|using|use)[ \t]+(?:static[ \t]+|function[ \t]+|const[ \t]+)?"
    rb"(?:(" + _NAME + rb")[ \t]*=[ \t]*)?([\w.\\*]+)(?:[ \t]+as[ \t]+(" + _NAME + rb"))?"
    rb"(?:\{([^{}]*)\})?[ \t]*;?",
    re.MULTILINE,
)


def _dotted(source: bytes) -> Iterator[Brought]:
    for found in _DOTTED.finditer(source):
        path = found[2].replace(b"\\", b".").strip(b".")
        if found[4] is not None:
            for part in found[4].split(b","):
                words = re.split(rb"\s*=>\s*|\s+as\s+", part.strip())
                if words[0]:
                    yield Brought(path, words[0].replace(b"_", EVERYTHING, words[0] == b"_"),
                                  words[-1], found.span())  # fmt: skip
            continue
        module, _, name = path.rpartition(b".")
        yield Brought(module or name, name if module else b"", found[1] or found[3] or name,
                      found.span())  # fmt: skip


_USE: Final = re.compile(
    rb"^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?use[ \t]+([^;]{1,2000});", re.MULTILINE
)
_TREE: Final = re.compile(rb"([\w:]*?)(?:::)?\{([^{}]*)\}")


def _rust(source: bytes) -> Iterator[Brought]:
    for found in _USE.finditer(source):
        tree = b" ".join(found[1].split())
        for path in _paths(tree):
            whole, _, alias = path.partition(b" as ")
            module, _, name = whole.strip().rpartition(b"::")
            if name == b"self":
                module, _, name = module.rpartition(b"::")
            yield Brought(module, name, alias.strip() or name, found.span())


def _paths(tree: bytes) -> list[bytes]:
    """The single paths of a tree of them, the innermost braces first."""
    paths = [tree]
    for _ in range(6):
        opened = [path for path in paths if b"{" in path]
        if not opened:
            break
        closed = []
        for path in paths:
            inner = _TREE.search(path)
            if inner is None:
                closed.append(path)
                continue
            before, after = path[: inner.start(2) - 1], path[inner.end() :]
            closed += [
                before + part.strip() + after for part in inner[2].split(b",") if part.strip()
            ]
        paths = closed[:MOST]
    # What was opened outside of the innermost braces is left with its commas.
    return [
        part for path in paths for part in path.replace(b"{", b"").replace(b"}", b"").split(b",")
    ]


_INCLUDE: Final = re.compile(
    rb'^[ \t]*#[ \t]*(?:include|import)[ \t]*["<]([^">\n]+)[">]', re.MULTILINE
)


def _c(source: bytes) -> Iterator[Brought]:
    for found in _INCLUDE.finditer(source):
        yield Brought(found[1], EVERYTHING, b"", found.span())


_REQUIRE: Final = re.compile(
    rb"""^[ \t]*(?:require|require_relative|load|source|\.)[ \t(]+["']?([\w./-]+)["']?""",
    re.MULTILINE,
)


def _ruby(source: bytes) -> Iterator[Brought]:
    for found in _REQUIRE.finditer(source):
        yield Brought(found[1], EVERYTHING, b"", found.span())


_READERS: Final[dict[str, Callable[[bytes], Iterator[Brought]]]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "java": _dotted,
    "kotlin": _dotted,
    "scala": _dotted,
    "swift": _dotted,
    "c#": _dotted,
    "php": _dotted,
    "rust": _rust,
    "c": _c,
    "c++": _c,
    "ruby": _ruby,
    "shell": _ruby,
}
