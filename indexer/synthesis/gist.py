"""What a frame's body says in a few words: its title, its first paragraph, its main names."""

from __future__ import annotations

from typing import NamedTuple

from indexer.core.patterns import pattern

READ = 16 * 1024
"""Characters of a body that are read: what a gist holds stands at the beginning."""
MAX_NAMES = 6

_LABEL = pattern(r"\[([a-z0-9.+#-]{1,20})\] ?")
_SENTENCE = pattern(r"(.+?[.!?。])(?=\s|$)")
_DECORATION = pattern(r"(?:(?:@[\w.]+(?:\([^()]*\))?|#\[[^\]]*\]) )+(?!interface\b)")
_DECLARED = pattern(
    r"\b(?:class|interface|struct|enum|trait|union|record|namespace|module|mod|type|def|fn"
    r"|function\*?|macro_rules!|func)\s+([\w$]+)|#define (\w+)"
    r"|^(?:export |default |pub(?:\(\w+\))? |declare )*(?:const|let|var|static(?: mut)?) ([\w$]+)"
    r"(?=$| ?[=:]| [A-Z])"
)
_METHOD = pattern(r"func \([^()]*\) (\w+)")
_POINTER = pattern(r"\(\*(\w+)\)\(")
_VALUE = pattern(r"[=:{]")
_ARGUMENTS = pattern(r"(?:<[^<>]*>|\[[^\[\]]*\])\s*$")
_WORD = pattern(r"[\w$]+")
_NOT_SYMBOLS = (
    " ",
    "imports: ",
    "package ",
    "impl",
    "extern ",
    "export *",
    "export {",
    "…",
    "(",
    "| ",
)
_PLAIN_LABELS = frozenset(("text", "binary", "json", "yaml", "toml", "ini"))


class Gist(NamedTuple):
    """What was read from a body; any part may be empty."""

    title: str
    lead: str
    names: tuple[str, ...]

    def line(self, width: int) -> str:
        """One line: the title and the first sentence, or else the main names."""
        said = " -- ".join(part for part in (self.title, first_sentence(self.lead)) if part)
        return cut(said or ", ".join(self.names), width)


NOTHING = Gist("", "", ())


def gist_of(body: str) -> Gist:
    """Read a body: an outline, a folder's frame, or any text."""
    lines = [line for line in body[:READ].split("\n") if line.strip()]
    if not lines:
        return NOTHING
    label = _LABEL.match(lines[0])
    if label is None:
        return _prose(lines)
    title = squeezed(lines[0][label.end() :])
    lead = ""
    names: list[str] = []
    for line in lines[1:]:
        if line.startswith("> "):
            lead = lead or squeezed(line[2:])
        elif label[1] == "folder":
            names.extend(_entries(line))
        elif not line.startswith(_NOT_SYMBOLS) and label[1] not in _PLAIN_LABELS:
            signature = line.partition(" -- ")[0]
            name = line[2:] if line.startswith("- ") else symbol_name(signature)
            if name and name not in names:
                names.append(name)
    return Gist(title, lead, _most_public(names))


def symbol_name(signature: str) -> str:
    """The name that a line of an outline declares; empty where it declares none."""
    text = _DECORATION.sub("", signature, count=1)
    method = _METHOD.match(text) or _POINTER.search(text)
    if method:
        return method[1]
    head = text.partition("(")[0]
    declared = _DECLARED.search(head)
    if declared:
        return declared[1] or declared[2] or declared[3]
    # `List<R> take(`: parameters of the type stand before the name, those of the name after it.
    head = _ARGUMENTS.sub("", _VALUE.split(head, maxsplit=1)[0])
    words = _WORD.findall(head)
    return words[-1] if words else ""


def first_sentence(text: str) -> str:
    """The first sentence of a paragraph."""
    found = _SENTENCE.match(text)
    return found[1] if found else text


def cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= width else text[: max(width - 1, 0)].rstrip() + "…"


def squeezed(text: str) -> str:
    """Runs of white space as single blanks."""
    return " ".join(text.split())


def _prose(lines: list[str]) -> Gist:
    title = squeezed(lines[0].lstrip("#*->_ "))
    lead = "" if len(lines) == 1 else squeezed(lines[1].lstrip("> "))
    if not lines[0].startswith("#"):
        # The first line is the text itself, not a heading over it.
        return Gist(first_sentence(title), "", ())
    return Gist(title, lead, ())


def _entries(line: str) -> list[str]:
    if line.startswith("- "):
        return [line[2:].partition(" -- ")[0]]
    if line.startswith("also: "):
        return line[len("also: ") :].split(", ")
    return []


def _most_public(names: list[str]) -> tuple[str, ...]:
    shown = [name for name in names if not name.startswith("_")] or names
    # What something does is said by its types and functions before its constants.
    shown.sort(key=lambda name: len(name) > 1 and name.isupper())
    return tuple(shown[:MAX_NAMES])
