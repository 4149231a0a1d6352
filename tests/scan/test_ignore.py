"""What each kind of ignore rule means, by example."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import pytest

from indexer.scan.ignore import Rule, Scope, root_scope


def judge(scope: Scope, path: bytes, files: Mapping[bytes, Mapping[bytes, bytes]] = {}) -> bool:
    """Whether a walk from the root leaves out `path`; a slash at its end makes it a folder."""
    *folders, name = path.rstrip(b"/").split(b"/")
    base = b""
    for folder in folders:
        if scope.ignores(folder, True):
            return True
        base += folder + b"/"
        scope = scope.child(folder, files.get(base, {}))
    return scope.ignores(name, path.endswith(b"/"))


def plain(rules: bytes) -> Scope:
    return root_scope({b".gitignore": rules}, defaults=False)


def decided(scope: Scope, name: bytes, is_dir: bool = False) -> Rule:
    rule = scope.why(name, is_dir)
    assert rule is not None
    return rule


@pytest.mark.parametrize(
    ("rules", "ignored", "kept"),
    [
        # Names and places
        (b"foo", [b"foo", b"foo/", b"a/foo", b"foo/x"], [b"foobar", b"xfoo"]),
        (b"/foo", [b"foo", b"foo/"], [b"a/foo"]),
        (b"foo/", [b"foo/", b"a/foo/", b"foo/x"], [b"foo", b"a/foo"]),
        (b"/foo/", [b"foo/"], [b"foo", b"a/foo/"]),
        (b"a/foo", [b"a/foo", b"a/foo/x"], [b"foo", b"b/a/foo", b"a/b/foo"]),
        (b"a/foo/", [b"a/foo/"], [b"a/foo", b"b/a/foo/"]),
        # Stars
        (b"*.c", [b"x.c", b".c", b"a/x.c", b"x.h.c"], [b"x.cc", b"xc"]),
        (b"*.tar.gz", [b"x.tar.gz", b".tar.gz"], [b"x.gz", b"tar.gz"]),
        (b"*_t.py", [b"a_t.py", b"_t.py"], [b"a.py", b"t.py"]),
        (b"f*o*r", [b"for", b"foobar", b"a/fxoxr"], [b"fo", b"xfoor", b"forx"]),
        (b"*a*b", [b"ab", b"aab", b"abab", b"xaxb"], [b"a", b"b", b"aba"]),
        (b"*ab*ab", [b"abab", b"ababab", b"abxab"], [b"ab", b"aba", b"bab"]),
        (b"/*.c", [b"x.c"], [b"a/x.c"]),
        (b"a/*", [b"a/x", b"a/x/"], [b"a/", b"x", b"b/a/x"]),
        (b"a/*/c", [b"a/b/c"], [b"a/c", b"a/b/b/c"]),
        (b"fo?", [b"foo", b"fo?"], [b"fo", b"fooo", b"fo\xc3\xa9"]),
        (b"fo??", [b"fo\xc3\xa9"], [b"foo"]),
        # Double stars
        (b"**/foo", [b"foo", b"a/foo", b"a/b/foo"], [b"xfoo"]),
        (b"**/a/foo", [b"a/foo", b"b/a/foo"], [b"foo", b"a/b/foo"]),
        (b"foo/**", [b"foo/a", b"foo/a/b"], [b"foo/", b"a/foo/b"]),
        (b"a/**/b", [b"a/b", b"a/x/b", b"a/x/y/b"], [b"b", b"x/a/b", b"ab"]),
        (b"a/**/**/b", [b"a/b", b"a/x/b"], [b"a/x"]),
        (b"a**b", [b"ab", b"axb"], [b"a"]),
        (b"**foo/", [b"foo/", b"xfoo/", b"a/xfoo/"], [b"xfoo"]),
        (b"**/", [b"a/"], [b"a"]),
        (b"/**", [b"a", b"a/b"], []),
        (b"?/a**b", [b"x/ab", b"x/axb"], [b"x/a/b"]),
        (b"a/**\\/b", [b"a/x/b", b"a/x/y/b"], [b"a/b"]),
        # Double stars glued to a literal start, where git's matcher takes them for a level
        (b"foo**/bar", [b"foobar", b"foo/bar", b"foox/bar", b"foox/y/bar"], [b"foo/barx", b"bar"]),
        (b"foo**/**/bar", [b"foobar", b"foo/x/bar"], [b"fobar"]),
        (b"a/foo**", [b"a/foo", b"a/foox", b"a/foox/y"], [b"a/fo", b"foo"]),
        (b"foo**\\/bar", [b"foo/bar", b"foox/y/bar"], [b"foobar"]),
        (b"foo**//bar", [b"foo/bar"], [b"foobar", b"foox/bar"]),
        (b"fo?**/bar", [b"foo/bar", b"foox/bar"], [b"foobar", b"foo/x/bar"]),
        # Classes
        (b"[a-c]", [b"a", b"b", b"c"], [b"d", b"-"]),
        (b"[!a-c]", [b"d", b"\xff"], [b"a", b"dd"]),
        (b"[^a-c]", [b"d"], [b"a"]),
        (b"[]a]", [b"]", b"a"], [b"b"]),
        (b"[!]a]", [b"b"], [b"]", b"a"]),
        (b"[a-]", [b"a", b"-"], [b"b"]),
        (b"[a-c-e]", [b"a", b"c", b"-", b"e"], [b"d"]),
        (b"[\\]]", [b"]"], [b"\\"]),
        (b"[\\a-\\c]", [b"b"], [b"\\"]),
        (b"[[:digit:]x]", [b"5", b"x"], [b"a", b":"]),
        (b"[[:space:]]", [b"\t", b"\r"], [b"\x0b", b"\x0c"]),
        (b"[[:alpha]", [b"[", b":", b"h"], [b"b", b"]"]),
        (b"[[:nope:]x]", [], [b"x", b"n"]),
        (b"[a", [], [b"[a", b"a", b"["]),
        (b"[", [], [b"["]),
        (b"[\x80-\xff]", [b"\xff"], [b"a", b"\xc3\xa9"]),
        (b"a[/]b", [], [b"a/b", b"a[/]b"]),
        (b"x[z-a]", [b"xz"], [b"xa", b"xm", b"x-"]),
        # Escapes
        (b"\\#a", [b"#a"], [b"\\#a"]),
        (b"\\!a", [b"!a"], [b"a"]),
        (b"\\*", [b"*"], [b"x"]),
        (b"\\a\\b", [b"ab"], []),
        (b"a\\\\b", [b"a\\b"], [b"ab"]),
        (b"a\\", [], [b"a", b"a\\"]),
        (b"a\\/b", [b"a/b"], [b"b"]),
        (b"a\\/", [], [b"a/", b"a\\/"]),
        # Spaces, line ends, comments, empty patterns
        (b"a  ", [b"a"], [b"a  "]),
        (b"a\\  ", [b"a "], [b"a", b"a  "]),
        (b"a\\\\ ", [b"a\\"], [b"a\\ "]),
        (b" a", [b" a"], [b"a"]),
        (b"a\t", [b"a\t"], [b"a"]),
        (b"a\r\nb\r", [b"a", b"b"], [b"a\r", b"b\r"]),
        (b"a\r\r\n", [b"a\r"], [b"a"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"], [b"b"]),
        (b"\xef\xbb\xbf#a", [], [b"#a", b"a"]),
        (b"a\0b\nc", [b"a", b"c"], [b"ab", b"b"]),
        (b"#a\n #b", [b" #b"], [b"a", b"#a"]),
        (b"\n\r\n/\n!\n!/\n//\n \na//\n//b", [], [b"a", b"a/", b"b", b" "]),
        # Order
        (b"*.c\n!x.c", [b"y.c"], [b"x.c"]),
        (b"!x.c\n*.c", [b"x.c"], []),
        (b"x.c\n!*.c\nx.c", [b"x.c"], [b"y.c"]),
        (b"a\n!a\na\n!a", [], [b"a"]),
        (b"*a\n!ba\n*ba\n!?ba\n*bba", [b"xa", b"bba"], [b"cba"]),
        (b"/*\n!/foo\n/foo/*\n!/foo/bar", [b"x", b"foo/x"], [b"foo/", b"foo/bar"]),
        (b"foo/\n!foo/bar", [b"foo/bar"], []),
        (b"foo/*\n!foo/bar", [b"foo/x"], [b"foo/bar"]),
        (b"!!a", [], [b"!a", b"a"]),
        (b"*\n!!a", [b"a"], [b"!a"]),
    ],
)
def test_rule_file(rules: bytes, ignored: list[bytes], kept: list[bytes]) -> None:
    scope = plain(rules)
    assert {path: judge(scope, path) for path in (*ignored, *kept)} == {
        **dict.fromkeys(ignored, True),
        **dict.fromkeys(kept, False),
    }


def test_a_deeper_file_overrides_and_is_anchored_where_it_stands() -> None:
    scope = plain(b"*.c\n!y.c\n")
    inner = scope.child(b"sub", {b".gitignore": b"!x.c\n/only\nd/e\n"})
    assert not inner.ignores(b"x.c", False)
    assert inner.ignores(b"z.c", False)
    assert inner.ignores(b"only", False)
    assert not inner.child(b"deep").ignores(b"only", False)
    assert inner.child(b"d").ignores(b"e", False)
    assert not inner.child(b"deep").ignores(b"x.c", False)
    # A sibling has only the root's rules.
    assert scope.child(b"other").ignores(b"x.c", False)


def test_merkleignore_overrides_the_gitignore_beside_it_but_not_a_deeper_one() -> None:
    files = {b".merkleignore": b"!a\nb\n", b".gitignore": b"a\n!b\n"}
    scope = root_scope(files, defaults=False)
    assert not scope.ignores(b"a", False)
    assert scope.ignores(b"b", False)
    assert not scope.child(b"x", {b".gitignore": b"!b"}).ignores(b"b", False)


def test_sources_rank_from_built_in_to_rule_files() -> None:
    assert root_scope().ignores(b"build", True)
    assert not root_scope(info_exclude=b"!build").ignores(b"build", True)
    scope = root_scope({b".gitignore": b"build"}, info_exclude=b"!build")
    assert scope.ignores(b"build", True)


def test_why_names_rule_file_and_line() -> None:
    scope = root_scope(
        {b".gitignore": b"# note\r\n\r\n*.log\r\n!keep.log  \r\n", b".merkleignore": b"/x\xff/"},
        info_exclude=b"mine",
    )
    found = [
        decided(scope, b"a.log"),
        decided(scope, b"keep.log"),
        decided(scope, b"x\xff", is_dir=True),
        decided(scope, b"mine"),
        decided(scope, b"node_modules", is_dir=True),
        decided(scope.child(b"\xff\\d", {b".gitignore": b"\n\nz"}), b"z"),
    ]
    assert [(rule.pattern, rule.source, rule.line, rule.negated) for rule in found] == [
        ("*.log", ".gitignore", 3, False),
        ("!keep.log", ".gitignore", 4, True),
        ("/x\\xff/", ".merkleignore", 1, False),
        ("mine", ".git/info/exclude", 1, False),
        ("node_modules/", "built-in", 0, False),
        ("z", "\\xff\\x5cd/.gitignore", 3, False),
    ]
    assert scope.why(b"src", True) is None
    assert scope.why(b"x\xff", False) is None


@pytest.mark.parametrize("defaults", [True, False])
def test_nothing_re_includes_git_merkle_and_the_lock(defaults: bool) -> None:
    undo = b"!.git\n!.merkle\n!merkle.lock\n!/merkle.lock\n!*\n!**/*\n!.git/\n!.merkle/\n"
    files = {b".gitignore": undo, b".merkleignore": undo}
    scope = root_scope(files, info_exclude=undo, defaults=defaults)
    inner = scope.child(b"a", files).child(b"b", files)
    for name in (b".git", b".merkle"):
        for is_dir in (True, False):
            assert scope.ignores(name, is_dir)
            assert inner.ignores(name, is_dir)
            assert decided(inner, name, is_dir).source == "built-in"
    assert scope.ignores(b"merkle.lock", False)
    assert not inner.ignores(b"merkle.lock", False)
    assert not root_scope(defaults=defaults).child(b"a").ignores(b"merkle.lock", False)


@pytest.mark.parametrize(
    "path",
    [
        *(b".hg/", b"node_modules/", b".venv/", b"venv/", b"__pycache__/", b".pytest_cache/"),
        *(b".mypy_cache/", b".ruff_cache/", b".tox/", b".nox/", b".cache/", b".hypothesis/"),
        *(b"build/", b"dist/", b"target/", b"x.egg-info/", b"m.pyc", b".next/", b".gradle/"),
        *(b".env", b".env.local", b"server.pem", b"server.key", b"a.p12", b"a.pfx", b"id_rsa"),
        *(b"id_ed25519", b"id_ecdsa", b".netrc", b".npmrc", b".pypirc", b"terraform.tfstate"),
        *(b".DS_Store", b".x.py.swp", b".#x.py", b"#x.py#", b".nfs0001", b"cmake-build-debug/"),
    ],
)
def test_built_in_list(path: bytes) -> None:
    assert judge(root_scope(), path)
    assert judge(root_scope(), b"some/folder/" + path)
    assert not judge(root_scope(defaults=False), path)
    assert not judge(root_scope({b".merkleignore": b"!" + path.replace(b"#", b"\\#")}), path)


@pytest.mark.parametrize(
    "path",
    [
        *(b".env.example", b".env.sample", b".env.template", b"build", b"dist", b"target", b"venv"),
        *(b".gitignore", b".merkleignore", b".github/", b"id_rsa.pub", b"keys.py", b"env/"),
        *(b"src/", b"lib/", b"bin/", b"vendor/", b"Makefile", b"x.py", b"x~", b".coveragerc"),
        *(b"package-lock.json", b"uv.lock", b"a.log", b"merkle.toml", b".vscode/"),
    ],
)
def test_built_in_list_leaves_alone(path: bytes) -> None:
    assert not judge(root_scope(), path)


SECRET_FILES = [
    *(b".env", b".env.production", b"prod.env", b".envrc", b".dev.vars", b"server.pem", b"a.key"),
    *(b"a.p12", b"a.jks", b"a.keytab", b"id_rsa", b"id_ed25519", b"ssh_host_rsa_key", b"vpn.ovpn"),
    *(b"credentials.json", b"credentials.yml", b"client_secret.json", b"client_secret_12.json"),
    *(b"service-account.json", b"service-account-prod.json", b"team-service-account.json"),
    *(b"serviceAccountKey.json", b"secrets.yaml", b"secrets.yml", b"secrets.toml", b"secrets.json"),
    *(b"terraform.tfvars", b"prod.auto.tfvars", b"x.tfvars.json", b"terraform.tfstate"),
    *(b"terraform.tfstate.backup", b"terraform.tfstate.17.backup", b"local.settings.json"),
    *(b".docker/config.json", b".dockerconfigjson", b"kubeconfig", b"prod.kubeconfig"),
    *(b".cargo/credentials", b".composer/auth.json", b"wp-config.php", b".npmrc", b".pypirc"),
    *(b".netrc", b".pgpass", b".git-credentials", b".htpasswd", b".vault_pass", b"sftp.json"),
    *(b"appsettings.Local.json", b".terraformrc", b".aws/credentials", b".kube/config"),
]


@pytest.mark.parametrize("path", SECRET_FILES)
def test_secret_files_come_in_by_an_exact_rule_only(path: bytes) -> None:
    assert judge(root_scope(), path)
    assert judge(root_scope(), b"src/" + path)
    # The rule that leaves `.aws` out has to be undone by name too.
    folder = b"".join(b"!%b/\n" % part for part in path.split(b"/")[:-1])
    for sweep in (b"/*\n!/src/\n!/src/**", b"!*", b"!**", b"*\n!src\n!src/**/*", b"!/src/[!x]*"):
        for name in (b".gitignore", b".merkleignore"):
            assert judge(root_scope({name: folder + sweep}), b"src/" + path), (name, sweep)
            inner = root_scope().child(b"src", {name: folder + sweep})
            assert judge(inner, path), (name, sweep)
        exact = folder + b"!/src/" + path
        assert not judge(root_scope({b".gitignore": sweep + b"\n" + exact}), b"src/" + path)
    assert not judge(root_scope({b".gitignore": exact + b"\n!/src/**"}), b"src/" + path)
    by_name = folder + b"!" + path.rpartition(b"/")[2]
    assert not judge(root_scope({b".merkleignore": by_name}), b"src/" + path)


def test_a_sweeping_rule_is_told_apart_from_a_later_rule_that_ignores() -> None:
    rules = b"!/src/.env\n.env\n!/src/**"
    assert judge(root_scope({b".gitignore": rules}), b"src/.env")
    scope = root_scope({b".gitignore": b"!/src/**"}).child(b"src")
    assert decided(scope, b".env", False).source == "built-in"
    assert decided(scope, b"a.py", False).pattern == "!/src/**"
    assert decided(scope, b".env.example", False).pattern == "!/src/**"
    assert not scope.ignores(b"build", True)


def test_where_the_built_in_lists_are_off_a_sweeping_rule_is_gits() -> None:
    scope = root_scope({b".gitignore": b"/*\n!/src/\n.env\n!/src/**"}, defaults=False)
    assert not judge(scope, b"src/.env")


@pytest.mark.parametrize(
    "path",
    [
        *(b"kubeconfig/", b"credentials.json/", b"secrets/", b"credentials/", b"secrets.py"),
        *(b"credentials.go", b"example.env", b".env.dist", b"auth.json", b"appsettings.json"),
        *(b"appsettings.Development.json", b"config.json", b"docker/config.json", b"settings.py"),
        *(b".docker/Dockerfile", b"wp-config-sample.php", b"terraform.tfvars.example", b"main.tf"),
        *(b".cargo/config.toml", b"secret.yaml", b"tokens.json", b"environment.ts", b"keys/"),
        *(b"credentials.py", b"service-account.yaml", b"id_rsa.pub", b"environ", b"config"),
    ],
)
def test_common_sources_are_no_secret_files(path: bytes) -> None:
    assert not judge(root_scope(), path)
    assert not judge(root_scope(), b"src/" + path)


def test_a_rule_for_a_named_folder_anywhere_starts_below_its_own_file() -> None:
    scope = plain(b"").child(b"docs", {b".gitignore": b"**/docs/x"})
    assert not scope.ignores(b"x", False)
    assert scope.child(b"docs").ignores(b"x", False)
    assert scope.child(b"other").child(b"docs").ignores(b"x", False)
    assert not scope.child(b"docs").child(b"other").ignores(b"x", False)


def test_a_child_without_rules_of_its_own_shares_its_parents() -> None:
    scope = root_scope({b".gitignore": b"/a\nb*c\n*.x\n"}).child(b"p")
    assert scope.child(b"q")._here[0] is scope._here[0]
    assert scope.child(b"q")._followed == ()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "rule",
    [
        *(b"*a" * 60 + b"*b", b"*?" * 100 + b"b", b"*[a-z]" * 80 + b"*b", b"*" * 5000 + b"b"),
        *(b"a*" * 120 + b"b", b"/" + b"*a" * 60 + b"b", b"**/" * 60 + b"*a*a*a*b"),
    ],
)
def test_many_stars_take_no_time_on_a_long_name(rule: bytes) -> None:
    scope = plain(rule)
    start = time.perf_counter()
    assert not scope.ignores(b"a" * 255, False)
    assert time.perf_counter() - start < 1


@pytest.mark.timeout(20)
def test_many_double_stars_take_no_time_on_a_deep_path() -> None:
    scope = plain(b"/" + b"**/a/" * 60 + b"b\n" + b"x" + b"**/" * 3000 + b"y\n")
    start = time.perf_counter()
    for _ in range(120):
        scope = scope.child(b"a")
    assert not scope.ignores(b"a", False)
    assert scope.ignores(b"b", False)
    assert time.perf_counter() - start < 1


def test_what_no_rule_may_decide_on_is_decided_by_none() -> None:
    rules = rb"""
*.log
/top
**/b/c.txt
[._]*.sw[a-p]
*~
*x*
?\xc3
*\xa9.txt
\xc3*
*\xa9
a*z
[^a]b
"""
    names = [
        "a.log", "top", "c.txt", ".a.swp", "_b.swa", "old~", "axb", "plain", "\u00e9.txt", "\u00e9",
        "a\udcc3", "aaz", "bb", "\udca9.txt", "z", "k", "b", "\u00e9\u00e9", "x", "caz", "a.b~",
    ]  # fmt: skip
    root = root_scope({b".gitignore": rules}, defaults=False)
    for scope in (root, root.child(b"b"), root.child(b"a", {b".gitignore": b"k\n!*.txt\n"})):
        doubtful = scope.doubtful(names)
        for name in names:
            raw = os.fsencode(name)
            if name not in doubtful:
                assert scope.why(raw, False) is None
                assert scope.why(raw, True) is None
        assert "plain" not in doubtful
