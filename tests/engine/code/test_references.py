"""What a name means, and how sure that is said to be."""

from __future__ import annotations

import pytest

from indexer.engine.code.questions import UnknownSymbolError, is_test
from indexer.errors import UsageError
from tests.support.space import Space

PROJECT = {
    "app/__init__.py": "from app.shapes import area\n",
    "app/shapes.py": (
        "from app import units as u\n\n\n"
        "def area(w, h):\n    return u.scale(w * h)\n\n\n"
        "def twice(w):\n    return area(w, w)\n\n\n"
        "class Shape:\n"
        "    def draw(self):\n        return self.size()\n\n"
        "    def size(self):\n        return area(1, 1)\n"
    ),
    "app/units.py": "def scale(value):\n    return value\n",
    "app/views.py": (
        "from . import area as surface\nfrom .shapes import (\n    Shape,\n    twice,\n)\n\n\n"
        "class Square(Shape):\n"
        "    def show(self):\n        return self.draw(), surface(2, 2)\n\n\n"
        "def main(area, shape):\n"
        "    area = twice(3)\n    shape.draw()\n    other(area=1)\n    return f'{twice(area)}'\n"
    ),
    "tests/test_shapes.py": (
        "import app.shapes\n\n\ndef test_area():\n    assert app.shapes.area(1, 2) == 2\n"
    ),
    "other/shapes.py": "def area():\n    return 0\n\n\nprint(area())\n",
}


@pytest.fixture
def code(space: Space) -> Space:
    space.fill(PROJECT)
    space.settle()
    return space


def edges(space: Space, symbol: str, question: str = "references", **options: str) -> set[str]:
    found = getattr(space.engine, question)(symbol, **options)["edges"]
    return {f"{one['path']}:{one['line']} {one['symbol']} {one['sure']}" for one in found}


def test_uses_are_found_through_imports_aliases_packages_and_re_exports(code: Space) -> None:
    assert edges(code, "app/shapes.py::area") == {
        "app/__init__.py:1  import",
        "app/shapes.py:9 twice exact",
        "app/shapes.py:17 Shape.size exact",
        "app/views.py:1  import",
        "app/views.py:10 Square.show import",
        "tests/test_shapes.py:5 test_area import",
    }
    assert edges(code, "other/shapes.py::area") == {"other/shapes.py:5  exact"}


def test_what_a_function_calls_its_own_is_no_use_of_a_name(code: Space) -> None:
    # `area` is a parameter, a variable and an argument of `main`, and never the function.
    assert not any(" main " in edge for edge in edges(code, "app/shapes.py::area"))
    assert edges(code, "twice") == {
        "app/views.py:4  import",
        "app/views.py:14 main import",
        "app/views.py:17 main import",
    }


def test_methods_are_found_by_class_then_by_being_the_only_one(code: Space) -> None:
    assert edges(code, "Shape.draw") == {
        "app/views.py:10 Square.show import",
        "app/views.py:15 main unique",
    }
    assert edges(code, "Shape.size") == {"app/shapes.py:14 Shape.draw exact"}
    code.write("app/more.py", "class Pen:\n    def draw(self):\n        pass\n")
    assert edges(code, "Shape.draw") == {
        "app/views.py:10 Square.show import",
        "app/views.py:15 main name",
    }
    assert edges(code, "Pen.draw") == {"app/views.py:15 main name"}
    assert edges(code, "Shape.draw", sure="unique") == {"app/views.py:10 Square.show import"}


TYPED = {
    "app/pens.py": (
        "class Pen:\n    def draw(self):\n        pass\n\n"
        "class Brush(Pen):\n    def draw(self):\n        pass\n\n"
        "class Box:\n    pen: Pen\n\n"
        "    @property\n    def brush(self) -> Brush:\n        return Brush()\n"
    ),
    "app/use.py": (
        "from app.pens import Box, Brush, Pen\nfrom app import pens\n\n\n"
        "def said(pen: Pen, other: 'Brush | None' = None):\n    pen.draw()\n    other.draw()\n\n\n"
        "def lines(\n    pen: Pen,\n    many: list[Pen],\n    brush: pens.Brush = None,\n):\n"
        "    pen.draw()\n    many.draw()\n    brush.draw()\n\n\n"
        "def bound(pen: Pen):\n    pen = choose()\n    pen.draw()\n\n\n"
        "def nested(pen: Pen):\n    def inner(pen):\n        pen.draw()\n"
        "    return lambda: pen.draw()\n\n\n"
        "def chained(box: Box):\n    box.pen.draw()\n    box.brush.draw()\n\n\n"
        "class Holder:\n    def __init__(self, pen: Pen, any):\n"
        "        self._pen = pen\n        self._brush = Brush()\n        self._any = any\n"
        "        self._either = Brush()\n        self._late: Brush | None = None\n\n"
        "    def all(self):\n        self._pen.draw()\n        self._brush.draw()\n"
        "        self._any.draw()\n        self._either.draw()\n        self._late.draw()\n\n"
        "    def other(self):\n        self._either = Pen()\n"
    ),
    "web/pen.ts": (
        "export class Pen {\n  draw(): void {}\n}\nexport class Ink {\n  draw(): void {}\n}\n"
    ),
    "web/use.ts": (
        "import { Pen } from './pen';\n"
        "export function use(pen: Pen, more?: Pen | undefined) {\n"
        "  pen.draw();\n  more.draw();\n}\n"
    ),
}


def test_what_a_file_says_of_types_tells_methods_of_one_name_apart(space: Space) -> None:
    space.fill(TYPED)
    space.settle()
    lines = TYPED["app/use.py"].split("\n")

    def drawn(symbol: str) -> list[str]:
        found = space.engine.callers(symbol, sure="import")["edges"]
        return [lines[one["line"] - 1].strip() for one in found if one["path"] == "app/use.py"]

    assert drawn("app/pens.py::Pen.draw") == [
        "pen.draw()", "pen.draw()", "return lambda: pen.draw()", "box.pen.draw()",
        "self._pen.draw()",
    ]  # fmt: skip
    assert drawn("app/pens.py::Brush.draw") == [
        "other.draw()", "brush.draw()", "box.brush.draw()", "self._brush.draw()",
        "self._late.draw()",
    ]  # fmt: skip
    # What no type is said of, or several, or another value than the parameter's: the name alone.
    unsure = {
        lines[one["line"] - 1].strip()
        for one in space.engine.callers("app/pens.py::Pen.draw")["edges"]
        if one["sure"] == "name" and one["path"] == "app/use.py"
    }
    assert {"many.draw()", "pen.draw()", "self._any.draw()", "self._either.draw()"} <= unsure
    # A brush may be what is given for a pen, so its method keeps that edge, as less sure.
    assert "self._brush.draw()" in unsure
    assert edges(space, "web/pen.ts::Pen.draw", "callers", sure="import") == {
        "web/use.ts:3 use import",
        "web/use.ts:4 use import",
    }


def test_callers_and_callees_are_the_two_ends_of_a_call(code: Space) -> None:
    assert edges(code, "scale", "callers") == {"app/shapes.py:5 area import"}
    found = code.engine.callees("Shape")["edges"]
    assert {(one["line"], one["target"]) for one in found} == {
        (14, "app/shapes.py::Shape.size"),
        (17, "app/shapes.py::area"),
    }


def test_impact_goes_on_by_distance_and_marks_tests(code: Space) -> None:
    found = code.engine.impact("app/units.py::scale", depth=3)["edges"]
    reached = {(one["path"], one["symbol"]): (one["distance"], one["test"]) for one in found}
    assert reached["app/shapes.py", "area"] == (1, False)
    assert reached["app/shapes.py", "twice"] == (2, False)
    assert reached["tests/test_shapes.py", "test_area"] == (2, True)
    assert reached["app/views.py", "main"] == (3, False)
    near = code.engine.impact("app/units.py", depth=1)["edges"]
    assert {one["symbol"] for one in near} == {"area"}


def test_a_renamed_function_moves_exactly_the_edges_that_name_it(code: Space) -> None:
    names = ("area", "twice", "Shape", "Shape.draw", "Shape.size")
    before = {name: edges(code, f"app/shapes.py::{name}") for name in names}
    rows = "SELECT number FROM code_facts ORDER BY number"
    numbers = code.engine.database.rows(rows)
    code.write("app/units.py", "def measure(value):\n    return value\n")
    code.settle()
    # Only what the edited file itself says was stored.
    assert len(code.engine.database.rows(rows)) == len(numbers) + 1
    assert {name: edges(code, f"app/shapes.py::{name}") for name in names} == before
    assert edges(code, "measure") == set()
    with pytest.raises(UnknownSymbolError):
        code.engine.references("scale")
    code.write("app/shapes.py", PROJECT["app/shapes.py"].replace("u.scale", "u.measure"))
    assert edges(code, "measure") == {"app/shapes.py:5 area import"}
    assert {name: edges(code, f"app/shapes.py::{name}") for name in names} == before


def test_edges_follow_files_that_move_and_go(code: Space) -> None:
    code.move("app/units.py", "app/measures.py")
    assert edges(code, "scale") == set()
    code.write("app/shapes.py", PROJECT["app/shapes.py"].replace("units as u", "measures as u"))
    assert edges(code, "scale") == {"app/shapes.py:5 area import"}
    (code.root / "app/shapes.py").unlink()
    assert edges(code, "scale") == set()


def test_answers_are_the_same_whatever_came_before(code: Space) -> None:
    other = code.clone()
    try:
        other.settle()
        code.write("app/shapes.py", "x = 1\n")
        code.settle()
        code.write("app/shapes.py", PROJECT["app/shapes.py"])
        code.settle()
        for name in ("area", "Shape.draw", "scale"):
            assert code.engine.references(name) == other.engine.references(name)
        assert code.engine.impact("app") == other.engine.impact("app")
    finally:
        other.close()


def test_other_languages_have_their_own_ways_of_bringing_in(space: Space) -> None:
    space.fill(
        {
            "web/cart.js": "export function total(items) { return items; }\n"
            "export default class Cart {}\n",
            "web/shop.js": 'import Basket, { total as sum } from "./cart";\n'
            "export const go = () => sum(new Basket());\n",
            "srv/store/store.go": "package store\n\nfunc Open(path string) int { return 1 }\n",
            "srv/main.go": 'package main\n\nimport "example.com/srv/store"\n\n'
            'func main() { store.Open("x") }\n',
            "src/queue.rs": "pub fn push(x: u8) -> u8 { x }\n",
            "src/main.rs": "use crate::queue::push;\n\nfn run() { push(1); }\n",
            "j/shop/Item.java": "package shop;\npublic class Item {\n"
            "  static int price() { return 1; }\n}\n",
            "j/shop/Cart.java": "package shop;\nclass Cart {\n"
            "  int sum() { return Item.price(); }\n}\n",
            "c/ring.h": "int ring_push(int x);\n",
            "c/ring.c": '#include "ring.h"\nint ring_push(int x) { return x; }\n',
            "c/main.c": '#include "ring.h"\nint main(void) { return ring_push(3); }\n',
        }
    )
    space.settle()
    assert edges(space, "web/cart.js::total") == {
        "web/shop.js:1  import",
        "web/shop.js:2 go import",
    }
    assert "web/shop.js:2 go import" in edges(space, "web/cart.js::Cart")
    assert edges(space, "Open") == {"srv/main.go:5 main import"}
    assert edges(space, "push") == {"src/main.rs:1  import", "src/main.rs:3 run import"}
    assert edges(space, "Item.price") == {"j/shop/Cart.java:3 Cart.sum import"}
    assert "c/main.c:2 main import" in edges(space, "c/ring.c::ring_push")


def test_files_with_ordinary_names_stand_for_themselves(space: Space) -> None:
    space.fill(
        {
            "app/__init__.py": "",
            "app/main.py": "def create():\n    return 1\n",
            "app/lib/mod.py": "def modded():\n    return 1\n",
            "index.py": "def listed():\n    return 1\n",
            "use.py": "from app.main import create\nfrom app.lib import mod\nimport index\n\n"
            "create()\nmod.modded()\nindex.listed()\n",
            "other/main.py": "def create():\n    return 2\n",
            "web/lib.js": "export const plain = 1;\n",
            "web/user.dto.ts": "export class UserDto {}\n",
            "web/index.js": "export { far } from './lib/far.js';\n",
            "web/lib/far.js": "export function far() {}\n",
            "web/use.ts": "import { plain } from './lib';\nimport { far } from './index';\n"
            "import { UserDto } from './user.dto';\nplain; far(); new UserDto();\n",
            "c/lib.h": "int ring(int x);\n",
            "c/main.c": '#include "lib.h"\nint main(void) { return ring(3); }\n',
            "srv/store/main.go": "package store\n\nfunc Start() int { return 1 }\n",
            "srv/store/more.go": "package store\n\nfunc Open() int { return 1 }\n",
            "cmd/a.go": 'package a\n\nimport "x.org/srv/store"\n\nfunc A() { store.Open() }\n',
            "src/lib.rs": "pub fn whole() {}\n",
            "src/use.rs": "use crate::whole;\n\nfn run() { whole(); }\n",
        }
    )
    space.settle()
    assert edges(space, "app/main.py::create") == {"use.py:1  import", "use.py:5  import"}
    assert edges(space, "other/main.py::create") == set()
    assert edges(space, "modded") == {"use.py:6  import"}
    assert edges(space, "listed") == {"use.py:7  import"}
    assert edges(space, "plain") == {"web/use.ts:1  import", "web/use.ts:4  import"}
    assert edges(space, "UserDto") == {"web/use.ts:3  import", "web/use.ts:4  import"}
    assert edges(space, "web/lib/far.js::far") == {
        "web/index.js:1  import",
        "web/use.ts:2  import",
        "web/use.ts:4  import",
    }
    assert edges(space, "ring") == {"c/main.c:2 main import"}
    assert edges(space, "Open") == {"cmd/a.go:5 A import"}
    assert edges(space, "whole") == {"src/use.rs:1  import", "src/use.rs:3 run import"}


def test_names_that_are_handed_on_under_others_are_followed(space: Space) -> None:
    space.fill(
        {
            "pkg/__init__.py": "from .core import Widget as Gadget\n",
            "pkg/core.py": "class Widget:\n    pass\n",
            "a.py": "import pkg\nfrom pkg import Gadget as Thing\n\npkg.Gadget()\nThing()\n",
            "web/net.js": "export default function request(u) { return u; }\n",
            "web/all.js": 'export { default as ask } from "./net";\nexport * from "./far";\n',
            "web/far.js": "export function far() {}\n",
            "web/b.js": 'import fetchIt from "./net";\nimport { ask, far } from "./all";\n'
            'import * as all from "./all";\n'
            "export const go = () => fetchIt(1) + ask(2) + far() + all.far();\n",
        }
    )
    space.settle()
    assert edges(space, "Widget") == {
        "a.py:2  import",
        "a.py:4  import",
        "a.py:5  import",
        "pkg/__init__.py:1  import",
    }
    assert edges(space, "request") == {
        "web/all.js:1  import",
        "web/b.js:1  import",
        "web/b.js:2  import",
        "web/b.js:4 go import",
    }
    assert edges(space, "far") == {"web/b.js:2  import", "web/b.js:4 go import"}


def test_what_a_function_brings_in_and_what_is_there_in_case(space: Space) -> None:
    space.fill(
        {
            "core.py": "def helper(a):\n    return a\n",
            "late.py": "def v():\n    from core import helper as hh\n    return hh(1)\n",
            "either.py": "try:\n    from core import helper\nexcept ImportError:\n"
            "    def helper(a):\n        return None\n\n\ndef w():\n    helper(2)\n",
            "b.py": "def b():\n    return b'x'\n\n\ndef u():\n    return b()\n",
            "k/e.kt": "package k\n\nfun String.shout(): String = this\n",
            "k/f.kt": 'package k\n\nfun go(): String {\n    val s = "x"\n    return s.shout()\n}\n',
        }
    )
    space.settle()
    assert edges(space, "core.py::helper") == {
        "either.py:2  import",
        "either.py:9 w import",
        "late.py:2  import",
        "late.py:3 v import",
    }
    assert edges(space, "either.py::helper") == {"either.py:9 w exact"}
    assert edges(space, "b.py::b") == {"b.py:6 u exact"}
    assert edges(space, "shout") == {"k/f.kt:5 go unique"}


def test_what_cannot_be_asked_is_refused_with_a_hint(code: Space) -> None:
    with pytest.raises(UnknownSymbolError) as caught:
        code.engine.callers("app/shapes.py::nothing")
    assert "merkle symbols nothing" in caught.value.hint
    with pytest.raises(UsageError):
        code.engine.references("area", sure="certain")
    with pytest.raises(UsageError):
        code.engine.impact("app", depth=0)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("a/test_b.py", True),
        ("pkg/b_test.go", True),
        ("web/x.spec.ts", True),
        ("src/latest.py", False),
        ("src/contest/a.py", False),
    ],
)
def test_tests_are_told_by_their_names(path: str, expected: bool) -> None:
    assert is_test(path) is expected


def test_what_files_use_is_read_once_and_kept_by_content(code: Space) -> None:
    def kept() -> int:
        return int(code.engine.database.rows("SELECT count(*) FROM code_uses")[0][0])

    assert kept() == 0
    first = edges(code, "app/shapes.py::area")
    # Neither the file that only defines `scale` nor any other without the name was read.
    read = kept()
    assert 0 < read < len(PROJECT)
    assert edges(code, "app/shapes.py::area") == first
    assert kept() == read


@pytest.mark.parametrize("name", ["x", "all", "n" * 70])
def test_names_that_no_word_stands_for_are_found_too(space: Space, name: str) -> None:
    space.fill(
        {"a.py": f"def {name}():\n    return 0\n", "b.py": f"from a import {name}\n\n{name}()\n"}
    )
    space.settle()
    assert edges(space, f"a.py::{name}") == {"b.py:1  import", "b.py:3  import"}


def meant(space: Space, name: str, at: str) -> list[str]:
    found = space.engine.definition(name, at=at)["symbols"]
    return [f"{one['path']}:{one['line']} {one['symbol']} {one['sure']}" for one in found]


def test_a_name_means_what_it_means_in_its_line(code: Space) -> None:
    assert meant(code, "area", "app/shapes.py:9") == ["app/shapes.py:4 area exact"]
    assert meant(code, "area", "other/shapes.py:5") == ["other/shapes.py:1 area exact"]
    assert meant(code, "scale", "app/shapes.py:5") == ["app/units.py:1 scale import"]
    assert meant(code, "surface", "app/views.py:10") == ["app/shapes.py:4 area import"]
    assert meant(code, "twice", "app/views.py:4") == ["app/shapes.py:8 twice import"]
    assert meant(code, "draw", "app/views.py:10") == ["app/shapes.py:13 Shape.draw import"]
    assert meant(code, "nothing", "app/views.py:10") == []
    with pytest.raises(UsageError):
        code.engine.definition("area", at="app/gone.py:1")


def test_symbols_of_one_file_or_folder(code: Space) -> None:
    def named(within: str, pattern: str = "*") -> list[str]:
        found = code.engine.symbols(pattern, within=within)["symbols"]
        return [f"{one['path']}:{one['line']} {one['symbol']}" for one in found]

    assert named("app/units.py") == ["app/units.py:1 scale"]
    assert named("other") == ["other/shapes.py:1 area"]
    assert named("app", "area") == ["app/shapes.py:4 area"]


def test_a_relative_import_that_leads_out_of_the_workspace_means_nothing(space: Space) -> None:
    space.fill(
        {
            "pkg/inner/deep/user.py": "from .....helper import run\n\n\ndef use():\n    run()\n",
            "pkg/inner/deep/near.py": "from ..helper import run\n\n\ndef use():\n    run()\n",
            "pkg/inner/helper.py": "def run():\n    return 1\n",
        }
    )
    space.settle()
    assert edges(space, "pkg/inner/helper.py::run") == {
        "pkg/inner/deep/near.py:1  import",
        "pkg/inner/deep/near.py:5 use import",
    }
