"""What must not move an outline: bodies, layout, comments inside, the hash seed, threads."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.generators import FileInput, make_generator

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]

# A function with a hole for its body, a filler that is a statement there, and a signature edit.
FUNCTIONS = {
    "a.py": ("def f(a, b=1):\n    {}\n\nclass C:\n    def m(self):\n        {}\n", "x{n} = g({n})"),
    "a.js": (
        "function f(a) {{ {} }}\nclass C {{ m(b) {{ {} }} }}\nconst g = (x) => {{ {} }};\n",
        "h({n});",
    ),
    "a.ts": (
        "export function f(a: number): void {{ {} }}\nclass C {{ m(): void {{ {} }} }}\n",
        "h({n});",
    ),
    "a.tsx": ("export function F(p: P) {{ {} return <b>x</b>; }}\n", "h({n});"),
    "a.go": ("package p\n\nfunc F(a int) {{ {} }}\nfunc (s *S) M() {{ {} }}\n", "h({n});"),
    "a.rs": ("pub fn f(a: u8) {{ {} }}\nimpl S {{ fn m(&self) {{ {} }} }}\n", "h({n});"),
    "a.java": ("class C {{ void m(int a) {{ {} }} C() {{ {} }} }}\n", "h({n});"),
    "a.c": ("int f(int a) {{ {} return 0; }}\nstatic void g(void) {{ {} }}\n", "h({n});"),
}


def outline(name: str, text: str | bytes) -> str:
    content = text if isinstance(text, bytes) else text.encode()
    return make_generator("outline").generate(FileInput(name, content))


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(derandomize=True, max_examples=25, deadline=None)
@given(numbers=st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
def test_body_edit_leaves_outline(name: str, numbers: list[int]) -> None:
    template, statement = FUNCTIONS[name]
    holes = template.count("{}")
    pad = "\n" + " " * 8 if name == "a.py" else "\n"
    indent = "\n    " if name == "a.py" else "\n"

    def filled(values: list[int]) -> str:
        bodies = []
        for hole in range(holes):
            between = pad if hole else indent
            bodies.append(between.join(statement.format(n=n) for n in values))
        return template.format(*bodies)

    assert outline(name, filled(numbers)) == outline(name, filled([0]))
    assert "(partial" not in outline(name, filled(numbers))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_inside_a_body_is_not_noted(name: str) -> None:
    template, statement = FUNCTIONS[name]
    holes = template.count("{}")
    whole = template.format(*[statement.format(n=1)] * holes)
    broken = template.format(*[statement.format(n=1) if name == "a.py" else "h(1 +);"] * holes)
    assert outline(name, broken) == outline(name, whole)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        (
            "a.py",
            "def f(a, b: int = 1, *c) -> x: pass",
            "def f(\n  a,\n  b:int=1,  # why\n  *c,\n)->x: pass",
        ),
        ("a.py", "class A(B, C): pass", "class A(\n    B,\n    C,\n): pass"),
        ("a.js", "function f(a, {b = 1}) {}", "function  f (\n  a,\n  { b=1 },\n) {}"),
        ("a.ts", "type U = A | B;", "type U =\n  | A\n  | B;"),
        (
            "a.ts",
            "function f<T>(a?: T): Map<K, V> {}",
            "function f<\n  T,\n>(\n  a? : T,\n): Map< K,V > {}",
        ),
        (
            "a.go",
            "package p\nfunc F(a int, b string) error {}",
            "package p\nfunc F(\n\ta int,\n\tb string,\n) error {}",
        ),
        (
            "a.rs",
            "fn f<'a>(x: &'a str, y: u8) -> R<A, B> {}",
            "fn f<'a>(\n    x: &'a str,\n    y: u8, // n\n) -> R<A,B> {}",
        ),
        (
            "a.java",
            "class A { void m(int a, B<C> b) {} }",
            "class A {\n  void m(\n    int a, /* n */\n    B< C > b ) {}\n}",
        ),
        ("a.c", "int f(char *a, int b);", "int\nf (char* a,\n   int b);"),
    ],
)
def test_layout_leaves_signature(name: str, one: str, other: str) -> None:
    assert outline(name, one) == outline(name, other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_edit_moves_outline(name: str) -> None:
    template, statement = FUNCTIONS[name]
    whole = template.format(*[statement.format(n=1)] * template.count("{}"))
    edited = re.sub(r"\b[ap](?=[,:) ])", "renamed", whole, count=1)
    assert edited != whole
    assert outline(name, edited) != outline(name, whole)


def test_strings_in_defaults_keep_their_blanks() -> None:
    assert "a=' ,  ( '" in outline("a.py", "def f(a = ' ,  ( '): pass")


def test_renamed_file_gets_the_other_outline() -> None:
    source = "def f(a):\n    return a\n"
    assert outline("a.txt", source).startswith("[text] ")
    assert outline("a.py", source) == "[python]\ndef f(a)\n"


@pytest.mark.parametrize(
    ("name", "first", "label"),
    [
        ("tool", "#!/usr/bin/env python3\n", "python"),
        ("tool", "#!/bin/bash\n", "shell"),
        ("Makefile", "", "makefile"),
        ("A.PY", "", "python"),
        (".bashrc", "", "shell"),
        ("README", "", "markdown"),
        ("x.unknown", "#!/bin/sh\n", "text"),
    ],
)
def test_language_by_name(name: str, first: str, label: str) -> None:
    assert outline(name, first + "x = 1\n").startswith(f"[{label}]")


def test_threads_agree() -> None:
    samples = [(p.name.removesuffix(".sample"), p.read_bytes()) for p in GOLDEN.glob("*.sample")]
    expected = [outline(*sample) for sample in samples]
    results: list[list[str]] = []

    def work() -> None:
        results.append([outline(*sample) for sample in samples for _ in range(3)][::3])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_generator_crosses_process_boundaries() -> None:
    generator = make_generator("outline", {"max_line": 80})
    again = pickle.loads(pickle.dumps(generator))
    assert again.fingerprint_parts() == generator.fingerprint_parts()


PROGRAM = """
import hashlib, pathlib, sys
from indexer.generators import FileInput, make_generator
generator = make_generator("outline")
digest = hashlib.sha256(repr(generator.fingerprint_parts()).encode())
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.sample")):
    name = path.name.removesuffix(".sample")
    digest.update(generator.generate(FileInput(name, path.read_bytes())).encode())
print(digest.hexdigest())
"""


def run(program: str, seed: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_hash_seed_takes_no_part() -> None:
    assert len({run(PROGRAM, seed, str(GOLDEN)) for seed in ("0", "1", "4242")}) == 1


def test_importing_generators_loads_no_grammar() -> None:
    program = (
        "import sys, indexer.generators as g; g.make_generator('outline')\n"
        "print([m for m in sys.modules if m.startswith('tree_sitter')"
        " or m == 'importlib.metadata'])"
    )
    assert run(program, "0") == "[]"


def test_only_the_grammar_in_use_is_loaded() -> None:
    program = (
        "import sys, indexer.generators as g\n"
        "g.make_generator('outline').generate(g.FileInput('a.go', b'package x'))\n"
        "print(sorted(m for m in sys.modules if m.startswith('tree_sitter_')"
        " or m == 'importlib.resources'))"
    )
    assert run(program, "0") == "['tree_sitter_go._binding']"
