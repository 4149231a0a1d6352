"""Make workspaces for benchmarks: believable, of any size, and byte-identical for one seed."""

import argparse
import os
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from string import Template
from typing import Final, TypeVar

T = TypeVar("T")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VERBS: Final = _words(
    "merge split fold trace gather resolve publish rotate balance compare encode decode verify"
    " collect expire claim route batch sample replay filter rank settle archive restore measure"
    " align prune schedule reserve attach detach inspect normalize partition reduce sort stage"
)
NOUNS: Final = _words(
    "ledger parcel voyage anchor beacon harvest orchard lantern quarry signal pallet invoice"
    " meadow ferry granary turbine reservoir cargo manifest compass foundry chapel kiln loom"
    " turret canal tariff permit survey rivet girder sluice pylon tender crane basin dredger"
    " mooring freight ballast gantry silo hopper"
)
ADJECTIVES: Final = _words(
    "quiet northern pending sealed spare hourly remote narrow settled early shared worn local"
    " frozen broad distant plain steady partial late"
)
SUFFIXES: Final = _words("Store Reader Index Plan View Queue Table")
AREAS: Final = _words(
    "accounts billing catalog clients common delivery domain events fixtures gateway ingest"
    " jobs kernel layout locale media messages metrics models net notes panels parsers planner"
    " policy ports profile protocol queue registry reports rules runtime schema search session"
    " shapes storage sync tasks theme timing transport units views widgets workers"
)

# What the edits look for; no other word list has these.
PARAMS: Final = ("depth", "limit", "width", "level", "window", "offset")
LOCALS: Final = ("budget", "quota", "margin")

_SIGNATURE: Final = re.compile(rb"\b(" + "|".join(PARAMS).encode() + rb")(\d*)\b")
_BODY: Final = re.compile(rb"\b((?:" + "|".join(LOCALS).encode() + rb")\s*:?=\s*)(\d+)")
_REVISION: Final = re.compile(rb"(\brevision\W{1,4})(\d+)")
_HEADING: Final = re.compile(rb"(?m)^(# .*?)(?: \((\d+)\))?$")

# Quantiles of a log-normal distribution (median 2560, sigma 1.2), as numbers: no libm takes part.
_SIZES: Final = (
    *(90, 356, 550, 738, 933, 1140, 1365, 1612, 1889, 2202),
    *(2560, 2977, 3469, 4065, 4803, 5751, 7028, 8875, 11916, 18430),
)
_TAIL_SIZES: Final = (18430, 20930, 24460, 30100, 41720, 90000)
_LARGE_SIZES: Final = (100_000, 150_000, 240_000, 400_000, 650_000, 1_048_576)
_LARGE_SHARE: Final = 0.001

# How many of 100 folders lie at depth 1, 2, ...; and the weight of a folder when files are dealt.
_DEPTH_WEIGHTS: Final = (3, 10, 20, 22, 18, 12, 8, 5, 2)
_FOLDER_WEIGHTS: Final = (0.2, 1, 2, 3, 4, 6, 8, 12, 20, 45)
_BIG_FOLDER_SHARE: Final = 0.004
_FILES_PER_FOLDER: Final = 10

_BANK_BLOCKS: Final = 240


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """What was written: the paths in the order of writing, and which of them have functions."""

    seed: int
    files: tuple[str, ...]
    folders: int
    total_bytes: int
    outlined: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Language:
    """How files with one extension are named and written; `{}` in head and tail is filled in."""

    extension: str
    style: str
    head: str
    blocks: tuple[str, ...]
    tail: str = ""
    separator: str = "\n"
    code: bool = True


_PY_BLOCKS: Final = (
    '''
def $name(items: list[str], $param: int = $n) -> list[str]:
    """$doc"""
    $local = $m
    kept: list[str] = []
    for item in items:
        if len(item) > $local:
            kept.append(item[:$param])
    return kept
''',
    '''
class $Type:
    """$doc"""

    def __init__(self, $noun: str, $param: int) -> None:
        self.$noun = $noun
        self.size = $param

    def $name(self, other: str) -> bool:
        """Tell whether the other $noun is at least as $adj as this one."""
        $local = $m
        return self.$noun == other or self.size > $local

    @property
    def label(self) -> str:
        """Return the $noun as people write it."""
        return f"{self.$noun} ({self.size})"
''',
    '''
def $name(table: dict[str, int], $param: int) -> int:
    """$doc"""
    $local = $m
    total = sum(value for key, value in table.items() if key != "$noun")
    if total > $param:
        raise ValueError(f"the $adj $noun holds {total}")
    return total + $local
''',
)
_TS_BLOCKS: Final = (
    """
/** $doc */
export function $name(items: readonly string[], $param: number): string[] {
  const $local = $m;
  const kept = items.filter((item) => item.length > $local);
  return kept.map((item) => item.slice(0, $param));
}
""",
    """
/** $doc */
export interface ${Type}Options {
  $noun: string;
  retries?: number;
}

/** Keeps the $adj $noun for as long as it is needed. */
export class $Type {
  private readonly known = new Map<string, number>();

  constructor(private readonly options: ${Type}Options) {}

  /** Returns how often the key was seen. */
  $name(key: string, $param: number): number {
    const $local = $m;
    const seen = (this.known.get(key) ?? $local) + $param;
    this.known.set(key, seen);
    return seen;
  }
}
""",
)
_JS_BLOCKS: Final = (
    """
/** $doc */
export function $name(items, $param) {
  const $local = $m;
  return items.filter((item) => item.$noun > $local).slice(0, $param);
}
""",
)
_GO_BLOCKS: Final = (
    """
// $Name does one thing: $doc
func $Name(items []string, $param int) []string {
	$local := $m
	kept := make([]string, 0, len(items))
	for _, item := range items {
		if len(item) > $local && len(kept) < $param {
			kept = append(kept, item)
		}
	}
	return kept
}
""",
    """
// $Type holds the $adj $noun. $doc
type $Type struct {
	$Noun string
	Count int
}

// $Name reports whether the $noun is used up.
func (t *$Type) $Name($param int) bool {
	$local := $m
	t.Count += $local
	return t.Count > $param
}
""",
)
_C_BLOCKS: Final = (
    """
/* $doc */
static inline size_t $name(const char *$noun, size_t $param)
{
    size_t $local = $m;
    while (*$noun != '\\0' && $local < $param) {
        $local += (unsigned char)*$noun++;
    }
    return $local;
}
""",
    """
/* $doc */
struct ${name}_$noun {
    size_t count;
    const char *label;
};

static inline int $name(struct ${name}_$noun *self, size_t $param)
{
    size_t $local = $m;
    self->count += $local;
    return self->count > $param ? -1 : 0;
}
""",
)
_JAVA_BLOCKS: Final = (
    """
    /** $doc */
    public static int $name(java.util.List<String> items, int $param) {
        int $local = $m;
        for (String item : items) {
            if (item.length() > $param) {
                $local += item.hashCode() % $n;
            }
        }
        return $local;
    }
""",
    """
    /** $doc */
    public record $Type(String $noun, long count) {
        /** Tells whether the $adj $noun is used up. */
        boolean $name(long $param) {
            long $local = $m;
            return count + $local > $param;
        }
    }
""",
)
_RS_BLOCKS: Final = (
    """
/// $doc
pub fn $name(items: &[String], $param: usize) -> Vec<&str> {
    let $local = $m;
    items
        .iter()
        .filter(|item| item.len() > $local)
        .map(|item| item.as_str())
        .take($param)
        .collect()
}
""",
    """
/// $doc
#[derive(Debug, Clone, PartialEq)]
pub struct $Type {
    pub $noun: String,
    pub count: u64,
}

impl $Type {
    /// Tells whether the $adj $noun is used up.
    pub fn $name(&self, $param: u64) -> bool {
        let $local = $m;
        self.count + $local > $param
    }
}
""",
)
_MD_BLOCKS: Final = (
    """
## $Verb the $noun

$doc A $adj $noun is rare, yet it happens about $n times a day \N{EM DASH} mostly at night.

- First, $verb what is $adj.
- Then wait for the $noun2, and $verb2 it within $m minutes.
""",
    """
### When the $noun is $adj

$doc

```sh
$verb-$noun --count $n --$adj
```

The $noun2 stays as it was.
""",
)

_C_HEAD: Final = "/* {doc} Unit {unit}, revision 1. */\n"
_LANGUAGES: Final = {
    language.extension: language
    for language in (
        _Language("py", "snake", '"""{doc}"""\n\n# Unit {unit}, revision 1.\n\n', _PY_BLOCKS),
        _Language("ts", "kebab", "// {doc} Unit {unit}, revision 1.\n", _TS_BLOCKS, separator=""),
        _Language("js", "kebab", "// {doc} Unit {unit}, revision 1.\n", _JS_BLOCKS, separator=""),
        _Language(
            "go",
            "snake",
            "// Unit {unit}, revision 1.\n\n// Package {folder}: {doc}\npackage {folder}\n",
            _GO_BLOCKS,
            separator="",
        ),
        _Language("c", "snake", _C_HEAD + "#include <stddef.h>\n", _C_BLOCKS, separator=""),
        _Language(
            "h",
            "snake",
            _C_HEAD + "#ifndef UNIT_{unit}_H\n#define UNIT_{unit}_H\n#include <stddef.h>\n",
            _C_BLOCKS,
            "\n#endif\n",
            "",
        ),
        _Language(
            "java",
            "type",
            "package {folder};\n\n/** {doc} Unit {unit}, revision 1. */\n"
            "public final class {stem} {{\n    private {stem}() {{}}\n",
            _JAVA_BLOCKS,
            "}\n",
            "",
        ),
        _Language(
            "rs", "snake", "//! {doc}\n// Unit {unit}, revision 1.\n", _RS_BLOCKS, separator=""
        ),
        _Language(
            "md", "kebab", "# {doc}\n\nUnit {unit}, revision 1.\n", _MD_BLOCKS, "", "", code=False
        ),
        _Language(
            "json",
            "kebab",
            '{{\n  "title": "{doc}",\n  "unit": {unit},\n  "revision": 1,\n  "entries": [\n',
            ('    {"id": "$noun-$n", "state": "$adj", "steps": ["$verb", "$verb2"], "size": $m}',),
            "\n  ]\n}\n",
            ",\n",
            code=False,
        ),
        _Language(
            "yaml",
            "kebab",
            "# {doc}\nunit: {unit}\nrevision: 1\nentries:\n",
            ("  - name: $noun-$n\n    state: $adj\n    steps: [$verb, $verb2]\n",),
            separator="",
            code=False,
        ),
        _Language(
            "toml",
            "kebab",
            "# {doc}\nunit = {unit}\nrevision = 1\n",
            ('\n[[$noun]]\nstate = "$adj"\nsteps = ["$verb", "$verb2"]\nsize = $m\n',),
            separator="",
            code=False,
        ),
        _Language(
            "css",
            "kebab",
            "/* {doc} Unit {unit}, revision 1. */\n",
            ("\n.$noun-$adj {\n  margin: ${n}px;\n  order: $m;\n}\n",),
            separator="",
            code=False,
        ),
        _Language(
            "sql",
            "snake",
            "-- {doc} Unit {unit}, revision 1.\n",
            ("INSERT INTO $noun (state, size) VALUES ('$adj', $n$m);\n",),
            separator="",
            code=False,
        ),
        _Language(
            "csv",
            "kebab",
            "name,state,unit {unit} revision 1\n",
            ("$noun,$adj,$n$m\n",),
            separator="",
            code=False,
        ),
        _Language(
            "sh",
            "kebab",
            "#!/bin/sh\n# {doc} Unit {unit}, revision 1.\nset -eu\n",
            ("\n# $doc\n$verb-$noun --count $n '$adj'\n",),
            separator="",
            code=False,
        ),
        _Language(
            "txt",
            "kebab",
            "{doc}\nunit {unit}, revision 1\n",
            ("$doc The $noun2 is $adj and counts $n.\n",),
            separator="",
            code=False,
        ),
    )
}

# Top-level folders, the extensions of the files below them, and how many of 100 folders they hold.
_TOP: Final = (
    ("services", ("py",), 20),
    ("dashboard", ("ts", "ts", "ts", "js", "css"), 18),
    ("gateway", ("go",), 12),
    ("docs", ("md",), 6),
    ("platform", ("java",), 12),
    ("firmware", ("c", "c", "h"), 10),
    ("engine", ("rs",), 8),
    ("tools", ("py", "py", "go", "sh"), 6),
    ("packages", ("ts", "ts", "js"), 8),
)
_COMPANIONS: Final = _words("md md md json json json yaml yaml toml txt css sql csv sh")
_COMPANION_SHARE: Final = 0.25
_DATA: Final = ("json", "csv", "txt", "sql")
_IGNORE_HEAD: Final = "# Unit {unit}, revision 1.\n*.log\n*.tmp\n/out/\n!keep.log\n__pycache__/\n"


class _Draw:
    """Random choices that rest on `Random.random` alone, whose sequence Python guarantees."""

    def __init__(self, seed: int) -> None:
        self.unit: Callable[[], float] = Random(seed).random

    def below(self, bound: int) -> int:
        """Return a number from 0 to bound - 1."""
        return int(self.unit() * bound)

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[int(self.unit() * len(choices))]

    def quantile(self, table: Sequence[float]) -> float:
        """Return a number whose distribution has these equally spaced quantiles."""
        place = self.unit() * (len(table) - 1)
        low = int(place)
        return table[low] + (table[low + 1] - table[low]) * (place - low)

    def weighted(self, weights: Sequence[float]) -> int:
        """Return an index, as often as its weight says."""
        totals = list(accumulate(weights))
        return bisect_right(totals, self.unit() * totals[-1])

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in another order."""
        return [item for _, _, item in sorted((self.unit(), i, x) for i, x in enumerate(items))]

    def sentence(self) -> str:
        """Return a sentence that a comment could contain."""
        verb, pick = self.pick(VERBS).capitalize(), self.pick
        first, second = pick(NOUNS), pick(NOUNS)
        return f"{verb} the {pick(ADJECTIVES)} {first} before the {second} is {pick(ADJECTIVES)}."


@dataclass(frozen=True, slots=True)
class _Bank:
    """Blocks of one language, twice in a row, so that any run of them is one slice."""

    text: bytes
    ends: tuple[int, ...]
    count: int

    def run(self, first: int, size: int, *, repeat: bool) -> bytes:
        """Return about `size` bytes of whole blocks from the given one on."""
        period = self.ends[self.count]
        whole, rest = divmod(max(0, size), period)
        if whole and not repeat:  # names are unique within a file of code
            whole, rest = 0, period
        start = self.ends[first]
        half = period // self.count // 2
        last = min(bisect_left(self.ends, start + rest + half) - 1, first + self.count)
        last = max(first, last)
        return self.text[start : self.ends[last]] + self.text[start : start + period] * whole


@cache
def _bank(extension: str, seed: int) -> _Bank:
    """Build the blocks of a language; names are unique among them."""
    language = _LANGUAGES[extension]
    draw = _Draw(seed * 1000 + sorted(_LANGUAGES).index(extension))
    names = draw.shuffled([(verb, noun) for verb in VERBS for noun in NOUNS])
    types = draw.shuffled([noun.capitalize() + end for noun in NOUNS for end in SUFFIXES])
    templates = [Template(block) for block in language.blocks]
    blocks: list[bytes] = []
    for i in range(_BANK_BLOCKS if language.code else 8 * _BANK_BLOCKS):
        verb, noun = names[i % len(names)]
        camel = verb + noun.capitalize()
        block = draw.pick(templates).substitute(
            name=f"{verb}_{noun}" if language.style == "snake" else camel,
            Name=camel[0].upper() + camel[1:],
            Type=types[i % len(types)],
            doc=draw.sentence(),
            verb=verb,
            Verb=verb.capitalize(),
            noun=noun,
            Noun=noun.capitalize(),
            adj=draw.pick(ADJECTIVES),
            noun2=draw.pick(NOUNS),
            verb2=draw.pick(VERBS),
            param=draw.pick(PARAMS),
            local=draw.pick(LOCALS),
            n=2 + draw.below(90),
            m=1 + draw.below(500),
        )
        blocks.append((block + language.separator).encode("utf-8"))
    ends = (0, *accumulate(len(block) for block in blocks * 2))
    return _Bank(b"".join(blocks * 2), ends, len(blocks))


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to be made, and what kind of files lie in it."""

    path: str
    extensions: tuple[str, ...]
    depth: int

    def join(self, name: str) -> str:
        """Return the path of something in this folder."""
        return f"{self.path}/{name}" if self.path else name


def _plan_folders(files: int, draw: _Draw) -> list[_Folder]:
    """Return the folders of a tree, each after its parent; the first one is the root."""
    count = max(1, files // _FILES_PER_FOLDER)
    top = _TOP[: max(1, min(len(_TOP), count // 3))]
    folders = [_Folder("", _COMPANIONS, 0)]
    folders += [_Folder(name, extensions, 1) for name, extensions, _ in top]
    levels = [[[], [folder]] for folder in folders[1:]]  # per top-level folder, by depth
    taken = {folder.path for folder in folders}
    for _ in range(count - len(top)):
        by_depth: list[list[_Folder]] = levels[draw.weighted([weight for _, _, weight in top])]
        depth = min(1 + draw.weighted(_DEPTH_WEIGHTS), len(by_depth))
        depth = max(depth, 2)
        parents = by_depth[depth - 1]
        parent = parents[int(len(parents) * draw.unit() ** 2)]  # older folders have more children
        path = parent.join(draw.pick(AREAS))
        if path in taken:
            path += f"_{draw.pick(NOUNS)}"
        if path in taken:
            path += f"_{len(folders)}"
        taken.add(path)
        folder = _Folder(path, parent.extensions, depth)
        if depth == len(by_depth):
            by_depth.append([])
        by_depth[depth].append(folder)
        folders.append(folder)
    return folders


def _deal(files: int, folders: Sequence[_Folder], draw: _Draw) -> list[int]:
    """Return how many files each folder gets: most a few, some very many, none nothing."""
    weights = [draw.quantile(_FOLDER_WEIGHTS) for _ in folders]
    weights = [w * 25 if draw.unit() < _BIG_FOLDER_SHARE else w for w in weights]
    weights[0] = 8.0
    totals = list(accumulate(weights))
    counts = [1] * min(files, len(folders)) + [0] * max(0, len(folders) - files)
    for _ in range(files - sum(counts)):
        counts[bisect_right(totals, draw.unit() * totals[-1])] += 1
    return counts


def _file_name(language: _Language, unit: int, taken: set[str], draw: _Draw) -> str:
    """Return a name that is free in its folder, in the manner of the language."""
    words = [draw.pick(VERBS), draw.pick(NOUNS)]
    is_test = language.code and draw.unit() < 0.12
    for more in ((), (draw.pick(ADJECTIVES),), (str(unit),)):
        words += more
        name = _spell(language, words, is_test)
        if name not in taken:
            break
    taken.add(name)
    return name


def _spell(language: _Language, words: Sequence[str], is_test: bool) -> str:
    """Join the words of a file name as the language does."""
    extension = language.extension
    if language.style == "type":
        return "".join(word.capitalize() for word in words) + f"{'Test' * is_test}.{extension}"
    stem = ("_" if language.style == "snake" else "-").join(words)
    if not is_test:
        return f"{stem}.{extension}"
    if extension in ("ts", "js"):
        return f"{stem}.test.{extension}"
    return f"test_{stem}.{extension}" if extension == "py" else f"{stem}_test.{extension}"


def _size(draw: _Draw) -> int:
    """Return the size that a file should have."""
    if draw.unit() < _LARGE_SHARE:
        return int(draw.quantile(_LARGE_SIZES))
    return int(draw.quantile(_TAIL_SIZES if draw.unit() < 0.05 else _SIZES))


def _extension(folder: _Folder, size: int, draw: _Draw) -> str:
    """Return the kind of a file: mostly that of its folder; what is large is data."""
    if size >= _LARGE_SIZES[0]:
        return draw.pick(_DATA)
    return draw.pick(_COMPANIONS if draw.unit() < _COMPANION_SHARE else folder.extensions)


def _content(name: str, folder: _Folder, unit: int, size: int, seed: int, draw: _Draw) -> bytes:
    """Return the bytes of a file, about as many as asked for."""
    stem, _, extension = name.partition(".")
    language = _LANGUAGES[extension.rpartition(".")[2]]
    package = folder.path.rpartition("/")[2] or "workspace"
    head = language.head.format(doc=draw.sentence(), unit=unit, folder=package, stem=stem)
    bank = _bank(language.extension, seed)
    room = size - len(head) - len(language.tail)
    first = draw.below(bank.count)
    body = bank.run(first, room, repeat=not language.code)
    if language.separator and body:
        body = body[: -len(language.separator)]
    return b"".join((head.encode("utf-8"), body, language.tail.encode("utf-8")))


def make_tree(dest: Path, files: int, *, seed: int = 0, flat: bool = False) -> TreeSpec:
    """Write a workspace of exactly so many files into a new or empty folder."""
    if files < 1:
        raise ValueError(f"a workspace needs at least one file, not {files}")
    dest.mkdir(parents=True, exist_ok=True)
    if any(dest.iterdir()):
        raise FileExistsError(f"{dest} is not empty")
    draw = _Draw(seed)
    everything = tuple(extension for _, extensions, _ in _TOP for extension in extensions)
    folders = [_Folder("", everything, 0)] if flat else _plan_folders(files, draw)
    paths: list[str] = []
    outlined: list[int] = []
    total = 0
    for folder, count in zip(folders, _deal(files, folders, draw), strict=True):
        if folder.path and count:
            os.mkdir(os.path.join(dest, folder.path))
        taken: set[str] = set()
        for i in range(count):
            unit = len(paths)
            if i == 0 and folder.depth < 2 and not flat:
                name, content = ".gitignore", _IGNORE_HEAD.format(unit=unit).encode("ascii")
            else:
                size = _size(draw)
                extension = _extension(folder, size, draw)
                name = _file_name(_LANGUAGES[extension], unit, taken, draw)
                content = _content(name, folder, unit, size, seed, draw)
                if _LANGUAGES[extension].code and _BODY.search(content):
                    outlined.append(unit)
            path = folder.join(name)
            _write(os.path.join(dest, path), content)
            paths.append(path)
            total += len(content)
    return TreeSpec(seed, tuple(paths), len(folders) - 1, total, tuple(outlined))


def _write(path: str, content: bytes) -> None:
    """Write a new file with as few system calls as there can be."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)


def edit_one(dest: Path, spec: TreeSpec, k: int) -> str:
    """Change a number in the k-th file, inside a function where it has one; return its path."""
    file = dest / spec.files[k]
    before = file.read_bytes()
    pattern = _BODY if _BODY.search(before) else _REVISION
    after = pattern.sub(lambda found: found[1] + b"%d" % (int(found[2]) + 1), before, count=1)
    file.write_bytes(after)
    return spec.files[k]


def edit_signature(dest: Path, spec: TreeSpec, k: int) -> str:
    """Rename a parameter of the first function of the k-th file, or its title in Markdown."""
    file = dest / spec.files[k]
    before = file.read_bytes()
    pattern = _HEADING if file.suffix == ".md" else _SIGNATURE
    found = pattern.search(before)
    if found is None:
        raise ValueError(f"{spec.files[k]} has no signature")
    number = b"%d" % (int(found[2] or 1) + 1)
    if pattern is _HEADING:
        after = before[: found.start()] + found[1] + b" (" + number + b")" + before[found.end() :]
    else:  # every block has its parameter twice: declared and used
        word = re.compile(rb"\b" + found[0] + rb"\b")
        after = word.sub(found[1] + number, before, count=2)
    file.write_bytes(after)
    return spec.files[k]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one tree and say what it holds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees", description=__doc__)
    parser.add_argument("dest", type=Path, help="a new or empty folder")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flat", action="store_true", help="all files in one folder")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    try:
        spec = make_tree(options.dest, options.files, seed=options.seed, flat=options.flat)
    except (FileExistsError, ValueError) as error:
        parser.error(str(error))
    seconds = time.perf_counter() - start
    print(
        f"{len(spec.files)} files, {spec.folders} folders, {spec.total_bytes / 1e6:.1f} MB,"
        f" {len(spec.outlined)} with functions, {seconds:.1f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
