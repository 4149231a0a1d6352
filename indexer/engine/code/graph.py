"""What a name means where it is used: by what is around it, by imports, or by being the only one.

The words of files tell which of them may use a name. These are read when somebody asks, and what
they use is kept for the next question by content; what it means is found out each time. So an edit
costs nothing here, and an answer is never older than the files it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.code import EXPLICIT, CodeSymbol, Import, Reference, Uses, unpack_uses
from indexer.core.terms import count_terms
from indexer.engine.code.places import Places, called_here, module_name
from indexer.generators.facts import HEADING
from indexer.generators.languages import language_of
from indexer.generators.references import VERSION, WORDS, uses_in
from indexer.store.postings import FILES

if TYPE_CHECKING:
    from indexer.engine.code.known import KnownFacts
    from indexer.store.code import FoundSymbol
    from indexer.store.postings import PostingStore

TextOf = Callable[[str], "bytes | None"]
"""The text of a file with the content that the tree says; None where that cannot be had."""

SURE: Final = ("exact", "import", "unique", "name")
"""How sure an edge is: said by the file itself, by an import or a declared type, by there being
only one symbol of that name, or by the name alone."""
EXACT, IMPORT, UNIQUE, NAME = SURE

TYPE_KINDS: Final = frozenset(
    ("class", "interface", "struct", "trait", "impl", "enum", "union", "object", "protocol", "type")
)
"""Kinds of symbols that have members."""
_OURSELVES: Final = frozenset(("self", "cls", "this", "Self", "@self"))
"""What stands for the object or type itself inside a method."""
_FAMILIES: Final = {"typescript": "javascript", "tsx": "javascript", "c++": "c", "kotlin": "java",
                    "scala": "java"}  # fmt: skip
_DEFAULT: Final = "export default"
_DEEPEST: Final = 6
"""How many re-exports, or types made from others, are followed."""
_MOST_WORDS: Final = 24
"""Words of a type's signature that are tried as what it is made from."""
_BASES: Final = re.compile(r"[A-Za-z_$][\w$.]*")
_NOT_BASES: Final = frozenset(
    (
        *("class", "struct", "interface", "trait", "impl", "enum", "object", "export", "default"),
        *("abstract", "final", "public", "private", "protected", "internal", "static", "sealed"),
        *("open", "data", "extends", "implements", "with", "where", "for", "metaclass", "Generic"),
    )
)


class Definition(NamedTuple):
    """A symbol at a place in the tree."""

    path: str
    number: int
    place: int
    symbol: CodeSymbol


class Edge(NamedTuple):
    """A use of a name, and what it may mean."""

    path: str
    reference: Reference
    target: Definition
    sure: str


@dataclass(slots=True)
class Meaning:
    """What a name stands for: definitions, or modules as the files that they are."""

    definitions: list[Definition] = field(default_factory=list)
    files: tuple[str, ...] = ()
    known: bool = False
    """Whether a definition or an import says what it is, though that may be outside the tree."""


class CodeFile:
    """One file with its facts, unpacked when they are asked for."""

    def __init__(
        self, path: str, number: int, language: str, symbols: tuple[CodeSymbol, ...], packed: bytes
    ) -> None:
        self.path, self.number, self.language = path, number, language
        self.symbols, self._packed = symbols, packed

    @cached_property
    def uses(self) -> Uses:
        """The names that it uses."""
        return unpack_uses(self._packed)

    @cached_property
    def brought(self) -> dict[str, list[Import]]:
        """What it brings in, by what that is called here."""
        return called_here(self.uses.imports)

    def around(self, place: int) -> Iterator[int]:
        """A symbol's place and those of everything that it stands in; at last -1 for the file."""
        while place >= 0:
            yield place
            place = self.symbols[place].parent
        yield -1

    def definition(self, place: int) -> Definition:
        """One of its symbols."""
        return Definition(self.path, self.number, place, self.symbols[place])

    def type_around(self, place: int) -> Definition | None:
        """The innermost type that a place stands in."""
        for at in self.around(place):
            if at >= 0 and self.symbols[at].kind in TYPE_KINDS:
                return self.definition(at)
        return None


class Graph:
    """Definitions and uses of one moment, loaded as far as a question needs them."""

    def __init__(
        self, known: KnownFacts, places: Places, postings: PostingStore, text_of: TextOf
    ) -> None:
        self.known, self._store, self._places = known, known.store, places
        self._postings, self._text_of = postings, text_of
        self.made: dict[int, bytes] = {}
        """By number the uses that were not stored."""
        self.unread: set[str] = set()
        """Files that could not be read with the content that they had."""
        self._files: dict[str, CodeFile] = {}
        self._named: dict[str, list[Definition]] = {}

    # -- loading

    def live(self, found: Iterable[FoundSymbol]) -> list[Definition]:
        """What of some stored symbols stands in the tree, by path and line."""
        numbers = self.known.numbers
        listed = [
            Definition(path, one.number, one.place, one.symbol)
            for one in found
            if numbers.get(one.key) == one.number
            for path in self._places.having(one.key)
        ]
        return sorted(listed, key=lambda one: (paths.sort_key(one.path), one.place))

    def named(self, name: str) -> list[Definition]:
        """The definitions of a name."""
        if name not in self._named:
            self.load_named([name])
        return self._named[name]

    def load_named(self, names: Iterable[str]) -> None:
        """Look up several names at once."""
        wanted = [name for name in dict.fromkeys(names) if name not in self._named]
        if wanted:
            self._named.update((name, []) for name in wanted)
            for one in self.live(self._store.named(wanted)):
                if one.symbol.kind != HEADING:
                    self._named[one.symbol.name].append(one)

    def load(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Load the facts of some files, by path and number."""
        missing = {path: number for path, number in wanted if path not in self._files}
        if not missing:
            return
        symbols = self._store.symbols(missing.values())
        uses = self._store.uses(missing.values(), VERSION) | self.made
        languages = {one.number: one.language for one in self._store.facts(missing.values())}
        for path, number in missing.items():
            language, packed = languages[number], uses.get(number)
            if packed is None:
                packed = self._read(path, number, language, symbols[number])
            self._files[path] = CodeFile(path, number, language, symbols[number], packed)

    def _read(
        self, path: str, number: int, language: str, symbols: tuple[CodeSymbol, ...]
    ) -> bytes:
        """What a file uses, from its text."""
        if number in self.made or language not in WORDS:
            return self.made.get(number, b"")
        text = self._text_of(path)
        if text is None:
            self.unread.add(path)
            return b""
        made = self.made[number] = uses_in(language, text, symbols)
        return made

    def file(self, path: str) -> CodeFile | None:
        """One file with its facts."""
        if path not in self._files:
            number = self._places.number(path, self.known.numbers)
            if number is None:
                return None
            self.load([(path, number)])
        return self._files[path]

    def users(self, names: Iterable[tuple[str, ...]]) -> list[CodeFile]:
        """The files that may use one of some names, because they have all of its words."""
        numbers = self.known.numbers
        wanted = self._having([count_terms(" ".join(parts)) for parts in names])
        found = [
            (path, one.number)
            for one in self._store.facts(wanted)
            if one.language in WORDS and numbers.get((one.content_id, one.ending)) == one.number
            for path in self._places.having((one.content_id, one.ending))
        ]
        self.load(found)
        return [self._files[path] for path, _ in sorted(found)]

    def _having(self, names: Iterable[Iterable[int]]) -> Iterable[int]:
        """The numbers of the files that have every term of a name; all where it has none."""
        if not all(names):
            return self.known.numbers.every()
        found = self._postings.find(FILES, (term for terms in names for term in terms))
        having = {term: frozenset(numbers) for term, (numbers, _) in found.items()}
        return {
            number
            for terms in names
            for number in frozenset.intersection(*(having[term] for term in terms))
        }

    # -- edges

    def edges_to(self, targets: Iterable[Definition]) -> Iterator[Edge]:
        """Every use that may mean one of some definitions, by path and line."""
        wanted = {(one.path, one.place): one for one in targets}
        files, names = self._that_may_use(wanted)
        for file in files:
            aliases = {
                alias
                for alias, brought in file.brought.items()
                if any(one.name in names for one in brought)
            }
            for reference in file.uses.references:
                for edge in self._meant(file, reference, names | aliases):
                    if (edge.target.path, edge.target.place) in wanted:
                        yield edge
            yield from self._brought(file, wanted, names)

    def _that_may_use(
        self, wanted: dict[tuple[str, int], Definition]
    ) -> tuple[list[CodeFile], set[str]]:
        """The files that may use some definitions, and every name these are handed on under."""
        names = {one.symbol.name for one in wanted.values()}
        following: set[tuple[str, ...]] = {(name,) for name in names}
        for one in wanted.values():
            if one.symbol.signature.startswith(_DEFAULT):
                # Whoever brings it in gives it a name, and says what its module is called.
                names.add("default")
                following |= {("default",), (module_name(one.path) or "default",)}
        files: dict[str, CodeFile] = {}
        while following:
            found = [file for file in self.users(following) if file.path not in files]
            files.update((file.path, file) for file in found)
            handed_on = {
                (one.alias, module_name(file.path))
                for file in found
                for one in file.uses.imports
                if one.name in names and one.alias not in (one.name, "", "*")
                if any((t.path, t.place) in wanted for t in self._imported(file, one).definitions)
            }
            names |= {alias for alias, _ in handed_on}
            # A name without a word of its own would lead to every file.
            following = {one for one in handed_on if count_terms(one[0])}
        return sorted(files.values(), key=lambda file: file.path), names

    def _meant(self, file: CodeFile, reference: Reference, names: set[str]) -> Iterator[Edge]:
        parts = reference.chain.split(".")
        for at, part in enumerate(parts):
            if part in names:
                for target, sure in self.resolve(file, reference, parts, at):
                    yield Edge(file.path, reference, target, sure)

    def _brought(
        self, file: CodeFile, wanted: dict[tuple[str, int], Definition], names: set[str]
    ) -> Iterator[Edge]:
        """The imports that bring in one of some definitions: these are uses of it, too."""
        for one in file.uses.imports:
            if one.name in names:
                for target in self._imported(file, one).definitions:
                    if (target.path, target.place) in wanted:
                        use = Reference(one.name, one.line, -1, False)
                        yield Edge(file.path, use, target, IMPORT)

    def edges_from(self, definition: Definition) -> Iterator[Edge]:
        """What a definition, with everything in it, calls."""
        file = self.file(definition.path)
        if file is None:
            return
        inside = [
            one
            for one in file.uses.references
            if one.called and definition.place in file.around(one.owner)
        ]
        self.load_named(one.chain.rpartition(".")[2] for one in inside)
        for reference in inside:
            parts = reference.chain.split(".")
            for target, sure in self.resolve(file, reference, parts, len(parts) - 1):
                yield Edge(file.path, reference, target, sure)

    # -- what a name means

    def resolve(
        self, file: CodeFile, reference: Reference, parts: list[str], at: int
    ) -> list[tuple[Definition, str]]:
        """The definitions that a part of a chain of names may mean, and how sure that is."""
        name = parts[at]
        if at == 0:
            found = self._plain(file, name, reference.owner)
            if found:
                return found
            if file.language in EXPLICIT or name in file.brought:
                return []
            return self._by_name(file, [one for one in self.named(name) if one.symbol.parent < 0])
        head = parts[0]
        members = [one for one in self.named(name) if _is_member(one.symbol)]
        if head in _OURSELVES:
            inside = file.type_around(reference.owner)
            if at == 1 and inside is not None:
                found = self._member(inside, name, EXACT)
                if found:
                    return found
        elif head.startswith(":"):
            # The name of a type that a variable is said to have stands in the variable's place.
            meaning, _ = self._chain(file, [head[1:], *parts[1:at]], reference.owner)
            said = self._within(meaning, name)
            if said:
                # Another type may be made from the one that is said, and have its own.
                others = [(one, NAME) for one in members if one not in said]
                return [*((one, IMPORT) for one in said), *others]
        elif head:
            meaning, sure = self._chain(file, parts[:at], reference.owner)
            if meaning.known:
                return [(one, sure) for one in self._within(meaning, name)]
        return self._by_name(file, members)

    def _plain(self, file: CodeFile, name: str, owner: int) -> list[tuple[Definition, str]]:
        """What a name alone means: around it, brought in, or of the same package."""
        scopes = list(file.around(owner))
        own = [one for one in self.named(name) if one.path == file.path]
        for scope in scopes:
            kind = file.symbols[scope].kind if scope >= 0 else ""
            # A class's own names are not seen from inside its methods where `self` is written.
            if kind in TYPE_KINDS and scope != owner and file.language in EXPLICIT:
                continue
            here = [one for one in own if one.symbol.parent == scope]
            if here and scope >= 0:
                return [(one, EXACT) for one in here]
        brought = file.brought.get(name, ())
        found = [one for each in brought for one in self._imported(file, each).definitions]
        if here or brought:
            # Both, where a file has one of its own in case that there is nothing to bring in.
            others = [(one, IMPORT) for one in found if one not in here]
            return [*((one, EXACT) for one in here), *others]
        top = [one for one in self.named(name) if one.symbol.parent < 0]
        for each in file.brought.get("*", ()):
            files = self._with_sources(self._places.module(file.language, file.path, each.module))
            found += [one for one in top if one.path in files]
        found += [one for one in top if self._places.packaged(file.language, file.path, one.path)]
        return [(one, IMPORT) for one in dict.fromkeys(found)]

    def _with_sources(self, files: Iterable[str]) -> set[str]:
        """Headers, and what stands beside them under the same name."""
        found = set(files)
        for path in files:
            stem, dot, ending = path.rpartition(".")
            if dot and ending.startswith("h"):
                found |= {stem + "." + other for other in ("c", "cc", "cpp", "cxx", "m", "mm")}
        return found

    def _chain(self, file: CodeFile, parts: list[str], owner: int) -> tuple[Meaning, str]:
        """What stands before a name, and how sure that is."""
        own = self._plain(file, parts[0], owner)
        if own:
            meaning = Meaning([one for one, _ in own], known=True)
            sure = own[0][1]
            if all(
                one.symbol.kind not in TYPE_KINDS and one.symbol.kind != "module" for one, _ in own
            ):
                # A variable or a call's result: of what type is not known.
                return Meaning(), sure
        else:
            sure = IMPORT
            meaning = Meaning()
            for one in file.brought.get(parts[0], ()):
                more = self._imported(file, one)
                meaning = Meaning(
                    meaning.definitions + more.definitions, meaning.files + more.files, known=True
                )
            if meaning.known and not meaning.definitions and not meaning.files:
                dotted = ".".join(parts)
                if any(one.module == dotted and not one.name for one in file.brought[parts[0]]):
                    meaning.files = self._places.module(file.language, file.path, dotted)
                return meaning, sure
        for at, part in enumerate(parts[1:], 1):
            if not meaning.known:
                break
            begin = parts[: at + 1]
            files: tuple[str, ...] = ()
            if any(
                not one.name and one.module.split(".")[: at + 1] == begin
                for one in file.brought.get(parts[0], ())
            ):
                files = self._places.module(file.language, file.path, ".".join(begin))
            found = self._within(meaning, part)
            meaning = Meaning(found, files or self._submodules(meaning, part), known=True)
        return meaning, sure

    def _submodules(self, meaning: Meaning, name: str) -> tuple[str, ...]:
        """Modules of a name in the folders that modules stand for."""
        found: list[str] = []
        for path in meaning.files:
            file = self.file(path)
            if file is not None and file.language == "python":
                found += self._places.module("python", path, "." + name)
        return tuple(found)

    def _within(self, meaning: Meaning, name: str, depth: int = 0) -> list[Definition]:
        """What a name means in a module or a type."""
        found = [
            one for one in self.named(name) if one.symbol.parent < 0 and one.path in meaning.files
        ]
        for definition in meaning.definitions:
            found += [one for one, _ in self._member(definition, name, EXACT)]
        if not found and depth < _DEEPEST:
            for path in meaning.files:
                file = self.file(path)
                for one in file.brought.get(name, ()) if file is not None else ():
                    assert file is not None
                    found += self._imported(file, one, depth + 1).definitions
                for one in file.brought.get("*", ()) if file is not None else ():
                    assert file is not None
                    files = self._places.module(file.language, path, one.module)
                    if files and path not in files:
                        found += self._within(Meaning(files=files), name, depth + 1)
        return list(dict.fromkeys(found))

    def _imported(self, file: CodeFile, one: Import, depth: int = 0) -> Meaning:
        """What an import stands for."""
        files = self._places.module(file.language, file.path, one.module)
        if not one.name:
            if one.alias and one.alias == one.module.partition(".")[0] != one.module:
                # `import a.b` names a.
                files = self._places.module(file.language, file.path, one.alias)
            return Meaning(files=files, known=True)
        if one.name == "default":
            return Meaning(self._defaults(files), files, known=True)
        found = self._within(Meaning(files=files), one.name, depth) if files else []
        below = one.module + ("" if one.module.endswith(".") else ".") + one.name
        inner = self._places.module(file.language, file.path, below)
        if not found and inner and file.language not in ("python", "rust"):
            found = self._within(Meaning(files=inner), one.name, depth)
        return Meaning(found, () if found else inner, known=True)

    def _defaults(self, files: Iterable[str]) -> list[Definition]:
        """What some files export without a name."""
        found = []
        for path in files:
            file = self.file(path)
            if file is not None:
                found += [
                    file.definition(at)
                    for at, one in enumerate(file.symbols)
                    if one.signature.startswith(_DEFAULT) or one.name == "exports"
                ]
        return found

    def _member(
        self, owner: Definition, name: str, sure: str, depth: int = 0
    ) -> list[tuple[Definition, str]]:
        """A member of a type, or of what it is made from."""
        file = self.file(owner.path)
        if file is None:
            return []
        same = {owner.place} | {
            at
            for at, one in enumerate(file.symbols)
            if one.symbol == owner.symbol.symbol and one.kind in TYPE_KINDS
        }
        own = [
            one
            for one in self.named(name)
            if (one.path == owner.path and one.symbol.parent in same)
            or (one.symbol.symbol == f"{owner.symbol.name}.{name}" and one.symbol.parent < 0
                and paths.split(one.path)[0] == paths.split(owner.path)[0])
        ]  # fmt: skip
        if own or depth >= _DEEPEST:
            return [(one, sure) for one in own]
        found: list[tuple[Definition, str]] = []
        for base in self._bases(owner.symbol):
            parts = base.split(".")
            meaning = (
                Meaning([one for one, _ in self._plain(file, base, owner.symbol.parent)])
                if len(parts) == 1
                else self._chain(file, parts, owner.symbol.parent)[0]
            )
            for one in meaning.definitions:
                if one.symbol.kind in TYPE_KINDS and one != owner:
                    found += self._member(one, name, IMPORT, depth + 1)
        return list(dict.fromkeys(found))

    def _bases(self, symbol: CodeSymbol) -> Iterator[str]:
        """What a type may be made from: the words of its signature that are no keywords."""
        for word in _BASES.findall(symbol.signature)[:_MOST_WORDS]:
            if word != symbol.name and word not in _NOT_BASES:
                yield word

    def _by_name(self, file: CodeFile, found: list[Definition]) -> list[tuple[Definition, str]]:
        """What the name alone tells: one symbol, or several."""
        family = _family(file.language)
        alike = [one for one in found if _family(language_of(one.path, b"")) == family]
        sure = UNIQUE if len(alike) == 1 else NAME
        return [(one, sure) for one in alike]


def _is_member(symbol: CodeSymbol) -> bool:
    if symbol.kind == "function":
        # `fun Type.name()`, which is written outside of the type that it extends.
        return f".{symbol.name}(" in symbol.signature.partition("fun ")[2]
    return "." in symbol.symbol


def _family(language: str) -> str:
    return _FAMILIES.get(language, language)
