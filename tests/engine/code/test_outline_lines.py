"""The lines in outlines: each is the one where that symbol begins, or there is none."""

from __future__ import annotations

import pytest

from indexer.core.secrets import mask
from tests.support.space import Space

NESTED = """def f():
    def g():
        pass


def g():
    pass
"""
CUT = """class A:
    def put(self):
        pass


def put(self):
    pass
"""
DOCUMENTED = '''"""def g()"""


def f():
    pass


def g():
    pass
'''
WITHOUT_TITLE = "---\ntitle: Sails\n---\n# Sails\n\n## Other\n\n## Sails\n"

CASES = {
    "a function in another": ("a.py", NESTED, {"def f()": [1], "def g()": [0]}),
    "one in a function between two": (
        "a.py",
        "def g():\n    pass\n\n\ndef f():\n    def g():\n        pass\n\n\n"
        "def h():\n    pass\n\n\ndef g():\n    pass\n",
        {"def g()": [1, 14], "def f()": [5], "def h()": [10]},
    ),
    "equal but for what is said of them": (
        "a.py",
        NESTED.replace("pass\n", '"""Said."""\n', 1),
        {"def f()": [1], "def g()": [6]},
    ),
    "a sentence that reads like a symbol": (
        "a.py",
        DOCUMENTED,
        {"[python] def g()": [0], "def f()": [4], "def g()": [8]},
    ),
    "a text of several lines": (
        "a.py",
        'def f(a="""\ndef g()\n"""):\n    pass\n\n\ndef g():\n    pass\n',
        {'def f(a="""\\ndef g()\\n""")': [1], "def g()": [7]},
    ),
    "an overload": (
        "a.py",
        "from typing import overload\n\n\n@overload\ndef f(a): ...\n@overload\ndef f(a): ...\n"
        "def f(a):\n    return a\n",
        {"def f(a)": [8]},
    ),
    "long ones that begin alike": (
        "a.py",
        "".join(f"def f({'a' * 300}, b{n}):\n    pass\n" for n in range(3)),
        {"def f(" + "a" * 233 + "…": [1, 3, 5]},
    ),
    "a heading with dashes": (
        "a.md",
        "# Title\n\n## Sails -- old\n\n## Sails\n\n## Sails -- new\n",
        {"- Sails -- old": [3], "- Sails": [5], "- Sails -- new": [7]},
    ),
    "equal headings": (
        "a.md",
        "# Sails\n\n## Sails\n\n### Sails\n\n## Sails\n",
        {"[markdown] Sails": [1], "- Sails": [3, 5, 7]},
    ),
    "a title in no heading": (
        "a.md",
        WITHOUT_TITLE,
        {"[markdown] Sails": [0], "- Sails": [4, 8], "- Other": [6]},
    ),
    "a title of reStructuredText": (
        "a.rst",
        "=====\nSails\n=====\n\nSails\n-----\n\nText.\n",
        {"[rst] Sails": [2], "- Sails": [5]},
    ),
    "line ends of Windows": (
        "a.py",
        NESTED.replace("g", "h", 1).replace("\n", "\r\n"),
        {"def f()": [1], "def g()": [6]},
    ),
    "other marks that may end lines": (
        "a.py",
        "# \x0c \x0b \x1c \x85 \u2028\n\x0c\ndef f():\n    pass\n\x0c\ndef g():\n    pass\n",
        {"def f()": [3], "def g()": [6]},
    ),
    "those in headings": (
        "a.md",
        "# A\u2028B\n\n## C\x0cD\n\n## E\x85F\n",
        {"[markdown] AB": [1], "- CD": [3], "- EF": [5]},
    ),
}


def lines_of(space: Space, path: str, type: str = "outline") -> dict[str, list[int]]:
    """The line before each text in an outline; of equal ones in their order."""
    frame = space.frame(path, type)
    found: dict[str, list[int]] = {}
    lined = frame.get("lined", frame["content"])
    for text, shown in zip(frame["content"].split("\n"), lined.split("\n"), strict=True):
        said = text.lstrip(" ")
        number = shown.lstrip(" ").removesuffix(said).removesuffix(": ")
        found.setdefault(said, []).append(int(number or 0))
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_line_is_that_of_its_symbol(space: Space, name: str) -> None:
    path, text, wanted = CASES[name]
    space.write(path, text)
    space.settle()
    found = lines_of(space, path)
    assert {said: found.get(said) for said in wanted} == wanted


def test_what_an_outline_leaves_out_gives_its_line_to_nothing_else(space: Space) -> None:
    space.declare('[types.short]\nfile = { use = "outline", max_symbols = 2 }\n')
    space.write("a.py", CUT)
    space.write("a.md", WITHOUT_TITLE.replace("---\n# ", "---\n\n# "))
    space.settle()
    assert lines_of(space, "a.py", "short")["class A"] == [1]
    assert lines_of(space, "a.py", "short")["def put(self)"] == [0]
    assert lines_of(space, "a.md", "short")["- Sails"] == [5]
    assert lines_of(space, "a.md", "short")["- Other"] == [7]


def test_the_facts_of_all_files_are_not_loaded_for_the_outlines_of_some(space: Space) -> None:
    long = "".join(f"\n# {n} of many words" for n in range(900))
    space.fill({f"{n}.py": f"def harbour_{n}():\n    pass\n{long}\n" for n in range(40)})
    space.settle()
    space.reopen()
    shown = space.engine.compose(query="harbour", budget=400 * 40, only=True, types=["outline"])
    assert sum("symbol_lines" in item for item in shown["items"]) == 40
    assert space.engine.frames.code._numbers is None


def test_a_secret_in_an_outline_moves_no_line(space: Space) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    assert mask(secret) != secret
    space.write("a.md", f"# Title\n\n## {secret}\n\n## Sails\n")
    space.write("a.py", f'def f(a="{secret}"):\n    pass\n\n\ndef g():\n    pass\n')
    space.settle()
    assert lines_of(space, "a.md")["- Sails"] == [5]
    assert lines_of(space, "a.py")["def g()"] == [5]
