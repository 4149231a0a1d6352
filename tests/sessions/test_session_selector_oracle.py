"""Selectors against a second evaluator that tries every node against every step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.sessions import import_session
from indexer.sessions.selector import SelectorError
from indexer.sessions.selector_parser import parse_selector

ROLES = [None, "user", "assistant"]
TYPES = ["cb", "cb:summary", "custom:note"]
VALUES = ["0", "1", "-1", "1.5", "'1'", "'b'", "null", "user", "true", "mc", "cb"]
PSEUDOS = [
    ":pre",
    ":core",
    ":core",
    ":post",
    ":first",
    ":first",
    ":last",
    ":last",
    ":nth(2)",
    ":depth(1)",
    ":depth(2-3)",
    ":depth(1,3)",
]


class Maker:
    """Trees and selectors from a seed, dense enough that most selectors find something."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names = (f"n{number}" for number in count())

    def tree(self) -> dict[str, Any]:
        sys = {"nodeType": "^sys", "children": self.some(self.block, 3)}
        seq = {"nodeType": "^seq", "children": self.some(self.turn, 4)}
        return {"root": {"children": [sys, seq, {**self.turn(), "nodeType": "^ah", "id": "h"}]}}

    def some(self, make: Callable[[], dict[str, Any]], most: int) -> list[dict[str, Any]]:
        return [make() for _ in range(self.random.randint(0, most))]

    def turn(self) -> dict[str, Any]:
        children = self.some(self.block, 4)
        if self.random.random() < 0.5:
            children = [node for node in children if node["offset"] != 0]
            inner = self.some(self.block, 3)
            children.append({"id": next(self.names), "nodeType": "mc", "children": inner})
        return {"id": next(self.names), "nodeType": "mt", "children": children}

    def block(self, depth: int = 0) -> dict[str, Any]:
        pick = self.random.choice
        node: dict[str, Any] = {
            "id": next(self.names),
            "nodeType": pick(TYPES),
            "offset": self.random.randint(-1, 1),
            "ttl": pick([None, 0, 1, 5]),
            "priority": self.random.randint(0, 2),
            "role": pick(ROLES),
            "created_at_ns": self.random.randint(0, 2),
            "data_x": pick([None, 1, 1.5, "1", "b", True]),
        }
        if depth < 2 and self.random.random() < 0.25:
            node["children"] = self.some(lambda: self.block(depth + 1), 3)
        else:
            node["content"] = pick(["", "x"])
        return node

    def selector(self) -> str:
        return ", ".join(self.chain() for _ in range(self.random.choice([1, 1, 1, 2])))

    def chain(self) -> str:
        pick = self.random.choice
        begin = pick(["", "", "^seq", "^seq", "^root", "^ah", "^sys"])
        steps = [begin] if begin else [self.step()]
        for _ in range(self.random.randint(1 if begin else 0, 3)):
            steps.append(pick([" ", " ", " > "]) + self.step())
        return "".join(steps)

    def step(self) -> str:
        pick, chance = self.random.choice, self.random.random
        text = pick(["", "", ".mt", ".mt", ".mc", ".mc", ".cb", ".cb", ".cb", ".cb:summary"])
        if chance() < 0.1:
            text = f"#n{self.random.randint(0, 9)}{text}"
        if chance() < 0.3:
            text += self.condition()
        if chance() < 0.35:
            text += pick(PSEUDOS)
        if chance() < 0.1:
            text += pick(PSEUDOS)
        return text or "*"

    def condition(self) -> str:
        pick = self.random.choice
        key = pick(["offset", "ttl", "priority", "role", "nodeType", "data_x", "id"])
        if self.random.random() < 0.15:
            return f"[{key}]"
        sign = pick(["=", "!=", "!=", "<", "<=", ">", ">="])
        return f"[{key}{sign}{pick(VALUES)}]"


class Oracle:
    """Judges single nodes from the last step back to the first; knows no index and no walk."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.flatten(document["root"], None)

    def flatten(self, node: dict[str, Any], parent: dict[str, Any] | None) -> None:
        entry = {"raw": node, "parent": parent, "real": True, "up": [parent] if parent else []}
        self.nodes.append(entry)
        kinds = [canonical(child) for child in node.get("children", ())]
        core = None
        turn = node["nodeType"] == "^ah" or canonical(node) == "mt"
        loose = [c for c in node.get("children", ()) if c["offset"] == 0 and canonical(c) == "cb"]
        if turn and "mc" not in kinds and loose:
            raw = {"nodeType": "mc", "offset": 0, "ttl": None, "priority": 0, "id": ""}
            core = {"raw": raw, "parent": entry, "real": False, "up": [entry]}
            self.nodes.append(core)
        for child in node.get("children", ()):
            place = len(self.nodes)
            self.flatten(child, entry)
            if core is not None and child in loose:
                self.nodes[place]["up"] = [entry, core]

    def select(self, text: str) -> list[str]:
        found: list[str] = []
        for chain in parse_selector(text).groups:
            sets: list[list[dict[str, Any]]] = []
            for step in chain:
                sets.append(self.narrow(step, sets[-1] if sets else None))
            for entry in self.nodes:
                if entry["real"] and any(entry is e for e in sets[-1]):
                    name = entry["raw"]["id"]
                    if name not in found:
                        found.append(name)
        return found

    def narrow(self, step: Any, before: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        kept = [e for e in self.nodes if self.meets(e, step) and self.related(e, step, before)]
        for pseudo in step.pseudos:
            kept = [e for e in kept if self.pseudo(e, pseudo, kept)]
        return kept

    def related(self, entry: Any, step: Any, before: Any) -> bool:
        if before is None:
            return True
        wanted = list(entry["up"])
        if step.combinator == " ":
            for above in wanted:
                wanted.extend(a for a in above["up"] if all(a is not w for w in wanted))
        return any(above is b for above in wanted for b in before)

    def meets(self, entry: Any, step: Any) -> bool:
        raw = entry["raw"]
        if not entry["real"] and not self.asks_for_core(step):
            return False
        if step.root and raw["nodeType"] != step.root:
            return False
        if step.id and raw["id"] != step.id:
            return False
        if step.type in ("mt", "mc", "cb"):
            if canonical(raw) != step.type:
                return False
        elif step.type and raw["nodeType"] != step.type:
            return False
        return all(compare(raw, condition) for condition in step.conditions)

    @staticmethod
    def asks_for_core(step: Any) -> bool:
        pairs = [(c.key, c.operator, c.value.text if c.value else "") for c in step.conditions]
        return step.type == "mc" or ("nodeType", "=", "mc") in pairs

    def pseudo(self, entry: Any, pseudo: Any, kept: list[Any]) -> bool:
        offset = entry["raw"]["offset"]
        if pseudo.name in ("pre", "core", "post"):
            return {"pre": offset < 0, "core": offset == 0, "post": offset > 0}[pseudo.name]
        if pseudo.name == "depth":
            turns = [e for e in self.nodes if canonical(e["raw"]) == "mt"][::-1]
            return any(t is entry and pseudo.has(n) for n, t in enumerate(turns, 1))
        family = [e for e in kept if e["parent"] is entry["parent"]]
        number = pseudo.ranges[0][0] if pseudo.name == "nth" else 1
        place = next(i for i, e in enumerate(family, 1) if e is entry)
        return place == (len(family) if pseudo.name == "last" else number)


def canonical(raw: dict[str, Any]) -> str:
    head = raw["nodeType"].split(":")[0]
    return head if head in ("mt", "mc", "cb") or head.startswith("^") else "cb"


def compare(raw: dict[str, Any], condition: Any) -> bool:
    value = raw.get(condition.key)
    if condition.operator is None:
        return value is not None
    literal, sign = condition.value, condition.operator
    if condition.key in ("offset", "ttl", "priority"):
        wanted = literal.number if literal.number is not None else digits(literal.text)
    elif condition.key in ("role", "nodeType", "id"):
        wanted = literal.text
    else:
        return custom(value, literal, sign)
    if literal.null:
        wanted = None
    if sign in ("=", "!="):
        same = (value is None and literal.null) or (value is not None and value == wanted)
        return same == (sign == "=")
    if value is None or wanted is None:
        return False
    return order(value, wanted, sign)


def custom(value: Any, literal: Any, sign: str) -> bool:
    if isinstance(value, bool):
        value = "true" if value else "false"
    if sign in ("=", "!="):
        wanted = literal.number if literal.number is not None else literal.text
        same = literal.null if value is None else not literal.null and value == wanted
        return same == (sign == "=")
    if value is None or literal.null:
        return False
    left = value if isinstance(value, (int, float)) else digits(value)
    right = literal.number if literal.number is not None else digits(literal.text)
    if left is None or right is None:
        return order(str(value), literal.text, sign)
    return order(left, right, sign)


def digits(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def order(left: Any, right: Any, sign: str) -> bool:
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign]


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_evaluator_agrees_with_brute_force(seed: int) -> None:
    maker = Maker(seed)
    session = import_session(maker.tree(), "s")
    oracle = Oracle(session.document())
    for _ in range(12):
        query = maker.selector()
        assert session.select(query) == oracle.select(query), query


def test_the_generated_selectors_find_something() -> None:
    """The comparison above would prove little if most results were empty."""
    found = []
    for seed in range(40):
        maker = Maker(seed)
        session = import_session(maker.tree(), "s")
        found.extend(bool(session.select(maker.selector())) for _ in range(10))
    assert sum(found) > len(found) // 6


ALPHABET = "^@*.#:[]()<>=!,'\"\\ -0123456789tcwsyeqahrobmfilnpdk_\n\u00e9\ud800"


@settings(derandomize=True, max_examples=800, deadline=None)
@given(st.one_of(st.text(), st.text(ALPHABET, max_size=30)))
def test_the_parser_answers_any_text(text: str) -> None:
    judge(text)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 40), st.text(ALPHABET, max_size=2))
def test_the_parser_answers_damaged_selectors(seed: int, place: int, inserted: str) -> None:
    query = Maker(seed).selector()
    judge(query[:place] + inserted + query[place + 1 :])


def judge(text: str) -> None:
    """A selector, or an error that points into the text; nothing else."""
    flaw: SelectorError | None = None
    try:
        parse_selector(text)
    except SelectorError as error:
        flaw = error
    assert flaw is None or (0 <= flaw.position <= len(text) and flaw.code.startswith("E_"))
