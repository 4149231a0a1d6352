"""The ignore matcher against the installed git, on generated repositories."""

import itertools
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from indexer.core.paths import bytes_to_text
from indexer.scan.ignore import Rule, Scope, root_scope

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

# Few and similar, so that patterns made of one name often meet another.
NAMES = (
    *(b"a", b"b", b"ab", b"ba", b"aa", b"a1", b"foo", b"foobar", b"barfoo", b"bar", b"xfoo"),
    *(b"foo.c", b"foo.h", b"foo.tar.gz", b"x.c", b".c", b".hid", b"..x", b"x.", b"a.b.c", b"c.a"),
    *(b"A", b"Z", b"_", b"-", b"9", b"[", b"]", b"[a]", b"a]", b"^", b"!", b"!a", b"#", b"#a"),
    *(b"*", b"**", b"?", b"a*", b"a?b", b"\\", b"a\\", b"\\a", b"a\\b", b":", b"a-b", b"[:alpha:]"),
    *(
        b" ",
        b"a ",
        b" a",
        b"a b",
        b"a  ",
        b"\t",
        b"a\t",
        b"a\r",
        b"a\nb",
        b"\x0b",
        b"\x0c",
        b"\x7f",
    ),
    *(b"\xc3\xa9", b"\xc3\xa9.c", b"\xff", b"a\xff", b"\x80", b"\xef\xbb\xbfa", b"\xe2\x82\xac"),
)
CLASSES = (
    *(b"[:alpha:]", b"[:digit:]", b"[:alnum:]", b"[:upper:]", b"[:lower:]", b"[:space:]"),
    *(b"[:blank:]", b"[:punct:]", b"[:cntrl:]", b"[:print:]", b"[:graph:]", b"[:xdigit:]"),
    *(b"[:nope:]", b"[:alpha]", b"[:", b"[::]", b"[.a.]", b":alpha:"),
)
MEMBERS = (
    *(b"a", b"b", b"f", b".", b"-", b"]", b"[", b"^", b"!", b"\\]", b"\\a", b"\\\\", b"/", b"*"),
    *(b"a-z", b"A-Z", b"0-9", b"a-f-z", b"!-~", b"+--", b"--0", b"z-a", b"\\a-\\z", b"a-\\z"),
    *(b"\x80-\xff", b"\xc3", b"a-[", b"[-a", b"a-[:alpha:]", b" ", b"?", b":", b"a-", b"\\"),
)
SOUP = (
    *(b"a", b"b", b"foo", b"bar", b".c", b"/", b"/", b"/", b"*", b"*", b"**", b"**/", b"/**"),
    *(b"/**/", b"**\\/", b"\\/", b"?", b"[", b"]", b"[a]", b"[!a]", b"[^b]", b"[]a]", b"\\"),
    *(b"\\a", b"\\*", b"!", b"#", b" ", b"\\ ", b"\t", b"-", b"^", b"\xff", b"\xc3\xa9", b"***"),
)
STARS = (
    *(
        b"a",
        b"a",
        b"a",
        b"b",
        b"b",
        b"ab",
        b"*",
        b"*",
        b"**",
        b"**",
        b"**/",
        b"**/",
        b"**/",
        b"***",
    ),
    *(
        b"/",
        b"/",
        b"/",
        b"/",
        b"/**/",
        b"/**/",
        b"/**",
        b"/**",
        b"**\\/",
        b"\\/",
        b"//",
        b"?",
        b"?",
    ),
    *(b"[ab]", b"[!a]", b"[/a]", b"\\a"),
)
LINES = (
    *(b"", b"/", b"//", b"!", b"!/", b"#", b"\\#a", b"\\!a", b"!!a", b"\\", b"a\\", b" ", b"\\ "),
    *(
        b"*",
        b"**",
        b"***",
        b"/*",
        b"/**",
        b"**/",
        b"*/",
        b"/*/",
        b"/**/",
        b"**/**",
        b"*/**",
        b"**/*",
    ),
    *(
        b"!*",
        b"!*/",
        b"!**/",
        b"a\0b",
        b"\0",
        b"\r",
        b"a\r\r",
        b"a \\",
        b"[",
        b"[]",
        b"[!]",
        b"a[/]b",
    ),
    *(
        b"*.c",
        b"!*.c",
        b"*.*",
        b"!foo",
        b".*",
        b"foo/*",
        b"!foo/bar",
        b"/a/**/b",
        b"a/**",
        b"/**/b",
    ),
)


@dataclass
class Repository:
    """What one seed stands for."""

    folders: list[bytes] = field(default_factory=lambda: [b""])
    files: dict[bytes, bytes] = field(default_factory=dict)
    links: dict[bytes, bytes] = field(default_factory=dict)
    exclude: bytes = b""


def generate(seed: str) -> Repository:
    rng = random.Random(seed)
    repository = Repository()
    names = rng.sample(NAMES, rng.randint(4, 14))
    taken = {b""}
    for _ in range(rng.randint(8, 45)):
        folder = rng.choice(repository.folders)
        path = folder + rng.choice(names)
        if path in taken:
            continue
        taken.add(path)
        if rng.random() < 0.4 and folder.count(b"/") < 4:
            repository.folders.append(path + b"/")
        elif rng.random() < 0.08:
            repository.links[path] = rng.choice([b".", b"nowhere", b"a"])
        else:
            repository.files[path] = b""
    for folder in repository.folders:
        if rng.random() < (0.9 if not folder else 0.25):
            repository.files[folder + b".gitignore"] = rule_file(rng, folder, sorted(taken))
    if rng.random() < 0.3:
        repository.exclude = rule_file(rng, b"", sorted(taken))
    return repository


def rule_file(rng: random.Random, folder: bytes, paths: list[bytes]) -> bytes:
    below = [path[len(folder) :] for path in paths if path.startswith(folder) and path != folder]
    # Of few paths, so that several lines have a say on the same one.
    chosen = rng.sample(below, min(3, len(below))) or [b"a/b", b"foo"]
    lines = [line(rng, chosen) for _ in range(rng.randint(1, 7))]
    content = rng.choice([b"\n", b"\n", b"\r\n"]).join(lines)
    bom = b"\xef\xbb\xbf" if rng.random() < 0.07 else b""
    return bom + content + (b"\n" if rng.random() < 0.7 else b"")


def line(rng: random.Random, paths: list[bytes]) -> bytes:
    kind = rng.random()
    if kind < 0.12:
        return rng.choice(LINES)
    if kind < 0.25:
        body = b"".join(rng.choice(SOUP) for _ in range(rng.randint(1, 7)))
    else:
        body = pattern(rng, rng.choice(paths))
    if rng.random() < 0.25:
        body = b"!" + body
    if rng.random() < 0.12:
        body += rng.choice([b" ", b"  ", b"\\ ", b"\\  ", b"\\\\ ", b"\t", b" \t", b"\r", b"\0x"])
    return body if rng.random() > 0.02 else b"#" + body


def pattern(rng: random.Random, path: bytes) -> bytes:
    levels = path.split(b"/")
    if rng.random() < 0.4:
        levels = levels[rng.randrange(len(levels)) :]
    made = [level(rng, name) for name in levels]
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        where = rng.randint(0, len(made))
        made[where : where + rng.choice([0, 0, 1, 2])] = [rng.choice([b"**", b"**", b"*", b"***"])]
    slashes = (b"/",) * 14 + (
        b"\\/",
        b"//",
        b"**/",
        b"/**",
        b"**",
        b"**\\/",
        b"",
        b"**/**/",
        b"**//",
    )
    body = made[0] if made else b""
    for name in made[1:]:
        body += rng.choice(slashes) + name
    lead = rng.choice([b"", b"", b"", b"/", b"/", b"**/", b"/**/", b"//", b"*"])
    tail = rng.choice([b"", b"", b"", b"", b"/", b"/", b"/*", b"/**", b"**", b"*", b"//", b"/**/"])
    return lead + body + tail


def level(rng: random.Random, name: bytes) -> bytes:
    """A pattern for one level that often matches `name`."""
    if rng.random() < 0.3:
        return name
    out = b""
    for value in name:
        byte = bytes((value,))
        draw = rng.random()
        if draw < 0.08:
            out += b"?"
        elif draw < 0.2:
            out += byte_class(rng, byte)
        elif draw < 0.28:
            out += rng.choice([b"*", b"*", b"**"])
        elif draw < 0.33:
            out += byte + rng.choice([b"*", b"**"])
        elif draw < 0.4 or (byte in b"*?[\\!# " and draw < 0.9):
            out += b"\\" + byte
        else:
            out += byte
    return out


def byte_class(rng: random.Random, byte: bytes) -> bytes:
    members = [rng.choice(MEMBERS + CLASSES) for _ in range(rng.randint(0, 2))]
    if rng.random() < 0.6:
        members.append(rng.choice([b"\\", b""]) + byte)
    rng.shuffle(members)
    sign = rng.choice([b"", b"", b"", b"!", b"^"])
    return b"[" + sign + b"".join(members) + (b"]" if rng.random() < 0.95 else b"")


class Git:
    """Git over a work tree that is filled anew for every repository."""

    def __init__(self, home: Path) -> None:
        self.tree = os.fsencode(home / "tree")
        self._git_dir = home / "git"
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": str(self._git_dir),
            "GIT_WORK_TREE": str(home / "tree"),
        }
        os.mkdir(self.tree)
        self.run("init", "-q", "--template=")
        (self._git_dir / "info").mkdir()

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.tree, env=self._env, input=stdin, capture_output=True, check=False
        )
        # `check-ignore` says 1 for "none of them".
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def fill(self, repository: Repository) -> None:
        shutil.rmtree(self.tree)
        os.mkdir(self.tree)
        (self._git_dir / "info" / "exclude").write_bytes(repository.exclude)
        for folder in repository.folders[1:]:
            os.mkdir(os.path.join(self.tree, folder))
        for path, content in repository.files.items():
            descriptor = os.open(os.path.join(self.tree, path), os.O_WRONLY | os.O_CREAT)
            os.write(descriptor, content)
            os.close(descriptor)
        for path, target in repository.links.items():
            os.symlink(target, os.path.join(self.tree, path))

    def visible(self) -> set[bytes]:
        listed = self.run("ls-files", "-o", "--exclude-standard", "-z")
        return set(listed.split(b"\0")[:-1])

    def why(self, paths: list[bytes]) -> dict[bytes, tuple[str, int] | None]:
        asked = b"".join(b"./" + path + b"\0" for path in paths)
        told = self.run("check-ignore", "-v", "-n", "-z", "--stdin", stdin=asked).split(b"\0")
        rules: dict[bytes, tuple[str, int] | None] = {}
        for source, number, _, path in zip(*[iter(told[:-1])] * 4, strict=True):
            name = bytes_to_text(source)
            name = ".git/info/exclude" if name.endswith("info/exclude") else name
            rules[path[2:]] = (name, int(number)) if source else None
        return rules


def read_rule_files(folder: bytes, rng: random.Random) -> tuple[dict[bytes, bytes], int]:
    """A folder's rules, sometimes dealt out to both files, and the lines that the first one got."""
    path = os.path.join(folder, b".gitignore")
    if not os.path.isfile(path):
        return {}, 0
    content = Path(os.fsdecode(path)).read_bytes()
    upper, newline, lower = content.partition(b"\n")
    if rng.random() < 0.3 and newline and not lower.startswith(b"\xef\xbb\xbf"):
        return {b".gitignore": upper, b".merkleignore": lower}, 1
    return {b".gitignore": content}, 0


def doubted(scope: Scope, names: list[bytes]) -> set[bytes]:
    """The names of a folder that a scan asks the rules about."""
    return set(map(os.fsencode, scope.doubtful([os.fsdecode(name) for name in names])))


def walk(
    root: bytes, exclude: bytes, rng: random.Random
) -> Iterator[tuple[bytes, bool, bool, tuple[str, int] | None]]:
    """Every entry of every folder that is not ignored: path, is folder, ignored, deciding line."""
    files, dealt = read_rule_files(root, rng)
    dealt_by_source = {".merkleignore": dealt}

    def place(rule: Rule | None) -> tuple[str, int] | None:
        if rule is None:
            return None
        source = rule.source.replace(".merkleignore", ".gitignore")
        return source, rule.line + dealt_by_source.get(rule.source, 0)

    def enter(
        base: bytes, scope: Scope
    ) -> Iterator[tuple[bytes, bool, bool, tuple[str, int] | None]]:
        listed = list(os.scandir(os.path.join(root, base)))
        doubtful = doubted(scope, [entry.name for entry in listed])
        for entry in listed:
            is_dir = entry.is_dir(follow_symlinks=False)
            path = base + entry.name
            # As a scan does: only what may be matched is asked about one by one.
            ignored = entry.name in doubtful and scope.ignores(entry.name, is_dir)
            rule = scope.why(entry.name, is_dir) if entry.name in doubtful else None
            yield path, is_dir, ignored, place(rule)
            if is_dir and not ignored:
                inner_files, inner_dealt = read_rule_files(entry.path, rng)
                dealt_by_source[bytes_to_text(path + b"/.merkleignore")] = inner_dealt
                yield from enter(path + b"/", scope.child(entry.name, inner_files))

    yield from enter(b"", root_scope(files, info_exclude=exclude, defaults=False))


def differences(git: Git, seed: str) -> list[str]:
    repository = generate(seed)
    git.fill(repository)
    seen = list(walk(git.tree, repository.exclude, random.Random(seed)))
    visible = {path for path, is_dir, ignored, _ in seen if not is_dir and not ignored}
    theirs = git.visible()
    found = [f"seed {seed}: git ignores {path!r}, we do not" for path in visible - theirs]
    found += [f"seed {seed}: we ignore {path!r}, git does not" for path in theirs - visible]
    rules = git.why([path for path, *_ in seen])
    found += [
        f"seed {seed}: {path!r} decided by {ours}, git says {rules[path]}"
        for path, _, _, ours in seen
        if rules[path] != ours
    ]
    return found


def ignored_by_walk(scope: Scope, path: bytes) -> bool:
    *folders, name = path.split(b"/")
    for folder in folders:
        if doubted(scope, [folder]) and scope.ignores(folder, True):
            return True
        scope = scope.child(folder)
    return bool(doubted(scope, [name])) and scope.ignores(name, False)


def pattern_differences(git: Git, rule: bytes, paths: list[bytes]) -> list[str]:
    """Where one rule differs on paths that need not exist."""
    Path(os.fsdecode(git.tree), ".gitignore").write_bytes(rule)
    theirs = git.why(paths)
    scope = root_scope({b".gitignore": rule}, defaults=False)
    return [
        f"{rule!r} on {path!r}: git says {theirs[path] is not None}"
        for path in paths
        if ignored_by_walk(scope, path) != (theirs[path] is not None)
    ]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git(tmp_path)


def check_repositories(git: Git, base: int, count: int) -> None:
    found: list[str] = []
    for number in range(count):
        found += differences(git, f"{base}/{number}")
    assert not found, "\n".join([f"{len(found)} differences", *found[:20]])


def check_slashes_and_stars(git: Git, base: int, count: int) -> None:
    rng = random.Random(base)
    names = [b"a", b"b", b"ab", b"aab"]
    grid = [
        b"/".join(path) for depth in (1, 2, 3) for path in itertools.product(names, repeat=depth)
    ]
    found: list[str] = []
    for _ in range(count):
        rule = b"".join(rng.choice(STARS) for _ in range(rng.randint(2, 8)))
        found += pattern_differences(git, rule, grid)
    assert not found, "\n".join([f"{len(found)} differences", *found[:20]])


def test_repositories_match_git(git: Git) -> None:
    check_repositories(git, base=0, count=60)


def test_slashes_and_stars_match_git(git: Git) -> None:
    check_slashes_and_stars(git, base=0, count=100)


def test_posix_classes_match_git_on_every_byte(git: Git) -> None:
    every = [bytes((value,)) for value in range(1, 256) if value not in b"/."]
    found: list[str] = []
    for name in CLASSES:
        found += pattern_differences(git, b"[" + name + b"]", every)
        found += pattern_differences(git, b"/[!" + name + b"]", every)
    assert not found, "\n".join(found[:20])


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_two_thousand_repositories_match_git(git: Git) -> None:
    check_repositories(git, base=1, count=2000)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_many_slashes_and_stars_match_git(git: Git) -> None:
    check_slashes_and_stars(git, base=1, count=3000)
