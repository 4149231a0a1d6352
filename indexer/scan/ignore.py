"""The one ignore matcher: git's rule files, `.merkleignore` and the built-in deny list.

A rule is cut into segments, one per folder level, and a folder's `Scope` knows how far each
rule with a slash has come. So every verdict is about one name in one folder, never about a
path, and folders without rule files of their own share everything with their parent.

Secret files are the one exception to git's rules: only a re-including rule that names the very
file brings one in, never one with wildcards that sweeps it in with others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from indexer.core.paths import bytes_to_text
from indexer.scan.ignore_defaults import DEFAULT_RULES, SECRET_RULES
from indexer.scan.ignore_patterns import Segment, Trail, trail_of, unglued, union

RULE_FILE_NAMES: Final = (b".gitignore", b".merkleignore")

_NO_FILES: Final[Mapping[bytes, bytes]] = MappingProxyType({})
_BUILT_IN: Final = "built-in"
# What no rule can re-include.
_FORCED_RULES: Final = b".git\n.merkle\n/merkle.lock"
# Precedence of the sources; from the root's files on, each folder level adds two.
_DEFAULT_LEVEL, _SECRET_LEVEL, _EXCLUDE_LEVEL, _ROOT_LEVEL, _FORCED_LEVEL = 0, 1, 2, 3, 1 << 30

_WILD: Final = re.compile(rb"[*?\[]")


class Rule(NamedTuple):
    """One line of a rule file."""

    pattern: str
    source: str
    line: int
    negated: bool
    dir_only: bool
    rank: int  # the highest matching one decides
    sweeps: bool  # re-includes by wildcards, and so no secret file
    file_only: bool  # git has no way to say it; built-in rules need it
    trails: tuple[Trail, ...]


def _rule(line: bytes, source: str, number: int, rank: int) -> Rule:
    negated = line.startswith(b"!")
    pattern = line[negated:]
    dir_only = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    if b"/" in pattern:
        choices = unglued(pattern.removeprefix(b"/"))
        trails = tuple(trail for trail in map(trail_of, choices) if trail is not None)
    else:
        trail = trail_of(pattern)
        # Without a slash a rule holds at every level, and `**` is just a star.
        trails = () if trail is None else ((None, trail[-1]),)
    text = line.decode("utf-8", "backslashreplace")
    sweeps = negated and source != _BUILT_IN and _WILD.search(pattern) is not None
    file_only = rank >> 32 == _SECRET_LEVEL and not dir_only
    return Rule(text, source, number, negated, dir_only, rank, sweeps, file_only, trails)


def _read_rules(content: bytes, source: str, level: int) -> Iterator[Rule]:
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.startswith(b"#"):
            continue
        # git holds a line as a C string, which ends at the first NUL.
        line = line.removesuffix(b"\r").partition(b"\0")[0]
        trimmed = line.rstrip(b" ")
        if (len(trimmed) - len(trimmed.rstrip(b"\\"))) % 2:
            trimmed = line[: len(trimmed) + 1]  # the backslash keeps the first space
        if trimmed:
            shown = 0 if source == _BUILT_IN else number
            yield _rule(trimmed, source, shown, (level << 32) + number)


def _read_files(path: bytes, rule_files: Mapping[bytes, bytes]) -> Iterator[Rule]:
    for level, name in enumerate(RULE_FILE_NAMES, _ROOT_LEVEL + 2 * path.count(b"/")):
        if content := rule_files.get(name):
            source = bytes_to_text(path + name)
            yield from _read_rules(content, source, level)


_Finals = list[tuple[Rule, Segment]]
"""Rules, each with what the name of an entry must look like to be matched."""
_NO_INSIDE: Final[Mapping[bytes, _Finals]] = MappingProxyType({})


class _Globs(NamedTuple):
    """Several globs as one regex."""

    match: Callable[[bytes], re.Match[bytes] | None]
    rules: tuple[Rule, ...]  # by group of the regex, highest rank first


def _globs(finals: _Finals) -> tuple[_Globs, ...]:
    if not finals:
        return ()
    finals = sorted(finals, key=lambda final: -final[0].rank)
    regex = union(tuple(segment.regex for _, segment in finals))
    return (_Globs(regex.match, tuple(rule for rule, _ in finals)),)


class _Table:
    """Rules that judge by the name alone, arranged for lookup."""

    __slots__ = ("_exact", "_floating", "_starting", "_suffix")

    def __init__(self) -> None:
        self._exact: dict[bytes, Rule] = {}
        # By the last dot and what follows it: all that can end a name so.
        self._suffix: dict[bytes, tuple[tuple[bytes, Rule], ...]] = {}
        # By first byte, all globs that can match; for other first bytes, the floating ones.
        self._starting: dict[int, tuple[_Globs, ...]] = {}
        self._floating: tuple[_Globs, ...] = ()

    def extended(self, finals: _Finals) -> _Table:
        """This table and more rules; itself when there are none."""
        if not finals:
            return self
        table = _Table()
        table._exact, table._suffix = self._exact.copy(), self._suffix.copy()
        starting: _Finals = []
        floating: _Finals = []
        for rule, segment in finals:
            if segment.exact is not None:
                known = table._exact.get(segment.exact)
                if known is None or known.rank < rule.rank:
                    table._exact[segment.exact] = rule
            elif segment.suffix is not None:
                key = segment.suffix[segment.suffix.rfind(b".") :]
                table._suffix[key] = (*table._suffix.get(key, ()), (segment.suffix, rule))
            else:
                (floating if segment.first is None else starting).append((rule, segment))
        here = _globs(floating)
        table._floating = here + self._floating
        table._starting = {first: here + globs for first, globs in self._starting.items()}
        globs = _globs(starting)
        for first in {segment.first for _, segment in starting if segment.first is not None}:
            table._starting[first] = globs + table._starting.get(first, table._floating)
        return table

    def find(self, name: bytes) -> Rule | None:
        """The highest rule that matches `name`."""
        found = self._exact.get(name)
        for suffix, rule in self._suffix.get(name[name.rfind(b".") :], ()):
            if name.endswith(suffix) and (found is None or found.rank < rule.rank):
                found = rule
        for match, rules in self._starting.get(name[0], self._floating):
            if found is None or found.rank < rules[0].rank:
                hit = match(name)
                if hit is not None:
                    rule = rules[(hit.lastindex or 1) - 1]
                    if found is None or found.rank < rule.rank:
                        found = rule
        return found


_NO_RULES: Final = _Table()


class _Doubts:
    """Which names of a folder some rules may have a say on, found for all of them at once.

    Names are as the system gives them. What is left out is matched by none of the rules.
    """

    __slots__ = ("_ends", "_exact", "_extensions", "_firsts", "_lasts", "_others", "_starts")

    def __init__(self, finals: _Finals) -> None:
        exact, starts, ends = set(), set(), set()
        others: list[bytes] = []
        for _, segment in finals:
            if segment.exact is not None:
                exact.add(_decoded(segment.exact))
            elif segment.suffix is not None:
                # Bytes may be cut inside a character, and text would then not end so.
                cut = 0 if segment.suffix.isascii() else segment.suffix.rfind(b".")
                ends.add(_decoded(segment.suffix[cut:]))
            elif segment.start.isascii() and segment.start:
                starts.add(_decoded(segment.start))
            elif segment.end.isascii() and segment.end:
                ends.add(_decoded(segment.end))
            elif segment.openings and max(segment.openings) < 128:
                starts.update(map(chr, segment.openings))
            else:
                others.append(segment.regex)
        self._others = union(tuple(others)).match if others else None
        self._exact = frozenset(exact)
        self._starts, self._ends = tuple(starts), tuple(ends)
        self._firsts = frozenset(start[0] for start in starts)
        # By the last dot and what follows it, or by the last character where there is no dot.
        self._extensions = frozenset(end[end.rfind(".") :] for end in ends if "." in end)
        self._lasts = frozenset(end[-1] for end in ends if "." not in end)

    def among(self, names: Sequence[str]) -> Collection[str]:
        """The names that may be matched."""
        extensions, firsts, lasts = self._extensions, self._firsts, self._lasts
        found = self._exact.intersection(names)
        maybe = [
            name
            for name in names
            if name[name.rfind(".") :] in extensions or name[0] in firsts or name[-1] in lasts
        ]
        if maybe:
            starts, ends = self._starts, self._ends
            found = found.union(
                [name for name in maybe if name.startswith(starts) or name.endswith(ends)]
            )
        if (others := self._others) is not None:
            found = found.union(
                [name for name in names if others(name.encode("utf-8", "surrogateescape"))]
            )
        return found


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


class _Followed(NamedTuple):
    """A rule that has been followed into a folder: the places in its trail that it has reached."""

    rule: Rule
    trail: Trail
    places: frozenset[int]

    def enter(self, name: bytes) -> _Followed | None:
        """The rule as it stands inside the folder `name`; None when it has no say there."""
        places = set()
        for place in self.places:
            if self.trail[place] is None:
                places.add(place)
                place += 1
            segment = self.trail[place]
            if segment is not None and place + 1 < len(self.trail) and segment.matches(name):
                places.add(place + 1)
        return _Followed(self.rule, self.trail, frozenset(places)) if places else None

    def final(self) -> Segment | None:
        """What an entry of this folder must look like to be matched."""
        last = len(self.trail) - 1
        if last in self.places or (last - 1 in self.places and self.trail[last - 1] is None):
            return self.trail[last]
        return None


class _Guard(NamedTuple):
    """What decides on secret files where some rule sweeps files in."""

    secrets: Scope  # the built-in rules that tell which files are secret
    named: Scope  # all rules but those that sweep


class Scope:
    """The rules in force inside one folder."""

    __slots__ = (
        "_dirs", "_doubts", "_doubts_here", "_files", "_followed", "_guard", "_here", "_inside",
        "_path", "_placed",
    )  # fmt: skip

    def __init__(
        self,
        path: bytes,
        files: _Table,
        dirs: _Table,
        followed: tuple[_Followed, ...],
        inside: Mapping[bytes, _Finals] = _NO_INSIDE,
        placed: _Finals | None = None,
        guard: _Guard | None = None,
        doubts: tuple[_Doubts, ...] = (),
    ) -> None:
        self._path = path  # empty, or ends with a slash
        self._files = files
        self._dirs = dirs
        self._followed = followed
        self._inside = inside  # rules like `**/folder/name`, by folder: they need no following
        self._placed = placed  # those of this folder's name
        self._guard = guard
        self._here = (files, dirs)
        self._doubts = self._doubts_here = doubts  # about the rules of the two tables
        if followed or placed:
            here = [(rule.rule, final) for rule in followed if (final := rule.final()) is not None]
            here += placed or ()
            if here:
                self._here = _extended(files, dirs, here)
                self._doubts_here = (*doubts, _Doubts(here))

    def child(self, name: bytes, rule_files: Mapping[bytes, bytes] = _NO_FILES) -> Scope:
        """The scope of the sub-folder `name`, given the contents of the rule files in it."""
        followed = self._followed
        if followed:
            followed = tuple(inner for rule in followed if (inner := rule.enter(name)) is not None)
        path = self._path + name + b"/"
        guard = self._guard
        if guard is not None:
            guard = _Guard(guard.secrets.child(name), guard.named.child(name))
        placed = self._inside.get(name)
        scope = Scope(
            path, self._files, self._dirs, followed, self._inside, placed, guard, self._doubts
        )  # fmt: skip
        return scope._with_rules(_read_files(path, rule_files)) if rule_files else scope

    def ignores(self, name: bytes, is_dir: bool) -> bool:
        """Whether the entry `name` of this folder is ignored."""
        rule = self._here[is_dir].find(name)
        if rule is not None and rule.sweeps:
            rule = self._unswept(rule, name, is_dir)
        return rule is not None and not rule.negated

    def doubtful(self, names: Sequence[str]) -> Collection[str]:
        """The entries of this folder that some rule may decide on; none does on the others."""
        if len(self._doubts_here) == 1:
            return self._doubts_here[0].among(names)
        return set().union(*(doubts.among(names) for doubts in self._doubts_here))

    def why(self, name: bytes, is_dir: bool) -> Rule | None:
        """The rule that decides on the entry `name`, which may re-include it; None if none does."""
        rule = self._here[is_dir].find(name)
        return self._unswept(rule, name, is_dir) if rule is not None and rule.sweeps else rule

    def _unswept(self, rule: Rule, name: bytes, is_dir: bool) -> Rule | None:
        """What decides instead of a rule that sweeps `name` in: another one where it is secret."""
        assert self._guard is not None
        secret = self._guard.secrets._here[is_dir].find(name)
        if secret is None or secret.negated:
            return rule
        return self._guard.named._here[is_dir].find(name)

    def _with_rules(self, rules: Iterable[Rule]) -> Scope:
        """This scope and higher rules, taken in one step so that their globs become one regex."""
        finals: _Finals = []
        followed = list(self._followed)
        rules = tuple(rules)
        guard = self._guard
        if guard is None and any(rule.sweeps for rule in rules):
            # Until here no rule has swept.
            guard = _Guard(_secrets_at(self._path), self)
        if guard is not None:
            named = [rule for rule in rules if not rule.sweeps]
            guard = guard._replace(named=guard.named._with_rules(named))
        inside: dict[bytes, _Finals] = {}
        for rule in rules:
            for trail in rule.trails:
                match trail:
                    case (None, Segment() as last):
                        finals.append((rule, last))
                    case (None, Segment(exact=bytes() as folder), Segment() as last):
                        inside.setdefault(folder, []).append((rule, last))
                    case _:
                        followed.append(_Followed(rule, trail, frozenset((0,))))
        for folder, known in self._inside.items() if inside else ():
            inside[folder] = [*known, *inside.get(folder, ())]
        tables = _extended(self._files, self._dirs, finals)
        doubts = (*self._doubts, _Doubts(finals)) if finals else self._doubts
        return Scope(
            self._path, *tables, tuple(followed), inside or self._inside, self._placed, guard,
            doubts,
        )  # fmt: skip


def _extended(files: _Table, dirs: _Table, finals: _Finals) -> tuple[_Table, _Table]:
    of_files = [final for final in finals if not final[0].dir_only]
    of_dirs = [final for final in finals if not final[0].file_only]
    return files.extended(of_files), dirs.extended(of_dirs)


@lru_cache(maxsize=1)
def _secret_rules() -> tuple[Rule, ...]:
    return tuple(_read_rules(SECRET_RULES, _BUILT_IN, _SECRET_LEVEL))


@lru_cache(maxsize=1)
def _default_rules() -> tuple[Rule, ...]:
    return (*_read_rules(DEFAULT_RULES, _BUILT_IN, _DEFAULT_LEVEL), *_secret_rules())


def _secrets_at(path: bytes) -> Scope:
    """The built-in rules about secret files as they stand in a folder."""
    scope = Scope(b"", _NO_RULES, _NO_RULES, ())._with_rules(_secret_rules())
    for name in path.split(b"/")[:-1]:
        scope = scope.child(name)
    return scope


def root_scope(
    rule_files: Mapping[bytes, bytes] = _NO_FILES,
    *,
    info_exclude: bytes = b"",
    defaults: bool = True,
) -> Scope:
    """The scope of the workspace root, given the contents of its rule files."""
    empty = Scope(b"", _NO_RULES, _NO_RULES, ())
    if not defaults:
        # No file is secret then.
        empty = Scope(b"", _NO_RULES, _NO_RULES, (), guard=_Guard(empty, empty))
    return empty._with_rules(
        chain(
            _default_rules() if defaults else (),
            _read_rules(info_exclude, ".git/info/exclude", _EXCLUDE_LEVEL),
            _read_files(b"", rule_files),
            _read_rules(_FORCED_RULES, _BUILT_IN, _FORCED_LEVEL),
        )
    )
