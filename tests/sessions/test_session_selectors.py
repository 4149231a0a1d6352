"""The selector language: golden queries, grammar, comparison rules and errors."""

from __future__ import annotations

import pytest

from indexer.errors import ExitCode
from indexer.sessions import Placement, Session, import_session, make_content
from indexer.sessions.selector import (
    At,
    Between,
    RangeKindError,
    RangeWildcardError,
    SelectorError,
)
from indexer.sessions.selector_parser import parse_selector


def block(node_id: str, role: str, content: str, **more: object) -> dict[str, object]:
    fields = {"id": node_id, "nodeType": "cb", "role": role, "kind": "text", "offset": 0}
    return {**fields, "content": content, **more}


def turn(node_id: str, *children: dict[str, object]) -> dict[str, object]:
    return {"id": node_id, "nodeType": "mt", "children": list(children)}


GOLDEN = {
    "root": {
        "children": [
            {"id": "sys-1", "nodeType": "^sys", "children": [block("cb:sysA", "system", "S")]},
            {
                "id": "seq-1",
                "nodeType": "^seq",
                "children": [
                    turn("mt:1", block("cb:u1", "user", "U1", ttl=2)),
                    turn("mt:2", block("cb:a1", "assistant", "A1", ttl=1)),
                ],
            },
            {"id": "ah-1", "nodeType": "^ah", "children": [block("cb:u2", "user", "U2")]},
        ]
    }
}
DEPTHS = {
    "root": {
        "children": [
            {
                "id": "seq-2",
                "nodeType": "^seq",
                "children": [
                    turn(f"mt:{n}", block(f"cb:u{n}", "user", f"U{n}")) for n in (1, 2, 3)
                ],
            }
        ]
    }
}
GOLDEN_QUERIES = [
    ("@t0 ^sys .cb", ["cb:sysA"]),
    ("@t0 ^seq .mt:depth(1)", ["mt:2"]),
    ("@t0 ^seq .mt:depth(1,2)", ["mt:1", "mt:2"]),
    ("@t0 ^seq .mt:depth(1-2) .mc > .cb", ["cb:u1", "cb:a1"]),
    ("@t0 ^seq .mt:depth(1) > .cb", ["cb:a1"]),
    ("@t0 #cb:u2", ["cb:u2"]),
    ("@t0 .cb[role='assistant']", ["cb:a1"]),
    ("@t0 ^seq .mt:depth(1-2) .cb[ttl<=1]", ["cb:a1"]),
    ("@t0 ^seq .mt:depth(3) .cb[role='user']", []),
]


@pytest.fixture
def golden() -> Session:
    return import_session(GOLDEN, "golden")


@pytest.mark.parametrize(("query", "expected"), GOLDEN_QUERIES)
def test_golden_queries(golden, query, expected):
    assert golden.select(query) == expected


@pytest.mark.parametrize(("query", "expected"), GOLDEN_QUERIES)
def test_golden_queries_after_a_round_trip(golden, query, expected):
    assert import_session(golden.export_snapshot(), "again").select(query) == expected


def test_golden_empty_depth_is_an_error(golden):
    with pytest.raises(SelectorError) as caught:
        golden.select("@t0 ^seq .mt:depth()")
    assert caught.value.code == "E_SELECTOR_INVALID"


def test_golden_depth_range():
    session = import_session(DEPTHS, "depths")
    expected = ["cb:u1", "cb:u2", "cb:u3"]
    assert session.select("@t0 ^seq .mt:depth(1-3) .cb[role='user']") == expected


@pytest.fixture
def talk(session: Session) -> Session:
    """Two sealed turns with context around them, and something in the active head."""

    def add(name: str, role: str = "user", content_type: str = "dialogue", **where: object) -> None:
        content = make_content(content_type, text=name, role=role)
        session.append(content, Placement(id=name, **where))

    add("law", content_type="instruction", priority=7)
    add("pre1", offset=-2)
    add("u1")
    add("a1", "assistant")
    add("post1", "tool", offset=1, node_type="cb:summary", attributes={"data_n": 10})
    session.commit()
    add("u2", attributes={"data_n": "9", "data_flag": True})
    add("post2", offset=3, node_type="custom:note", ttl=4)
    session.commit()
    add("draft", offset=-1)
    return session


def test_roots(talk):
    assert talk.select("^root") == ["^root"]
    assert [talk.select(r) for r in ("^sys", "^seq", "^ah")] == [["^sys"], ["^seq"], ["^ah"]]
    assert talk.select("^root > *") == ["^sys", "^seq", "^ah"]
    assert talk.select("^sys .cb") == ["law"]
    assert talk.select("@w ^ah .cb") == ["draft"]


def test_types(talk):
    assert len(talk.select(".mt")) == len(talk.select(".mc")) == 2
    assert talk.select(".cb") == ["law", "pre1", "u1", "a1", "post1", "u2", "post2"]


def test_namespaced_types_by_token_and_by_attribute(talk):
    for token in ("cb:summary", "custom:note"):
        assert talk.select(f".{token}") == talk.select(f"[nodeType='{token}']") != []
    assert talk.select(".mc") == talk.select("[nodeType='mc']")
    assert talk.select(".tool_call") == []


def test_implicit_cores_by_token_and_by_attribute(golden):
    assert golden.select(".mc > .cb") == golden.select("[nodeType='mc'] > .cb")
    assert golden.select(".mc > .cb") == ["cb:u1", "cb:a1", "cb:u2"]
    assert golden.select("^ah .mc:core .cb") == ["cb:u2"]
    assert golden.select(".mc") == []
    assert golden.select("^seq * > .cb") == ["cb:u1", "cb:a1"]


def test_ids_match_exactly(talk):
    assert talk.select("#law") == ["law"]
    assert talk.select("#LAW") == talk.select("#la") == []
    talk.append(make_content("dialogue", text="x"), Placement(id="9f-UUID"))
    assert talk.select("@w #9f-UUID") == ["9f-UUID"]


def test_offset_pseudo_classes(talk):
    assert talk.select("^seq .cb:pre") == ["pre1"]
    assert talk.select("^seq .cb:post") == ["post1", "post2"]
    assert talk.select("^seq .mt:depth(2) .cb:core") == ["u1", "a1"]
    assert len(talk.select("^seq .mt > :core")) == 2


def test_combinators_are_literal(talk):
    assert talk.select("@w ^ah .cb:pre") == ["draft"]
    assert talk.select("@w ^ah :pre .cb") == []
    talk.apply(talk.plan_group(Placement(id="g", node_type="cb:group", offset=-5)))
    talk.append(make_content("dialogue", text="in g"), Placement(id="in-g", parent="g"))
    assert talk.select("@w ^ah :pre .cb") == ["in-g"]
    assert talk.select("@w ^ah > .cb") == ["g", "draft"]
    assert talk.select("@w ^ah>.cb") == talk.select("@w ^ah  >  .cb")


def test_depth_lists_and_ranges(talk):
    newest, oldest = talk.select(".mt:depth(1)"), talk.select(".mt:depth(2)")
    assert newest != oldest
    assert talk.select(".mt:depth(1,2)") == talk.select(".mt:depth(2-1)") == oldest + newest
    assert talk.select(".mt:depth(1,2-9)") == oldest + newest
    assert talk.select(".mt:depth(7)") == talk.select(".cb:depth(1)") == []
    assert talk.select(":depth( 1 - 2 ):first") == oldest


def test_position_pseudo_classes(talk):
    assert talk.select("^seq .mt:first .cb") == ["pre1", "u1", "a1", "post1"]
    assert talk.select("^seq .mt:last .cb") == ["u2", "post2"]
    assert talk.select("^seq .mc > .cb:first") == ["u1", "u2"]
    assert talk.select("^seq .mc > .cb:last") == ["a1", "u2"]
    assert talk.select("^seq .mc > .cb:nth(2)") == ["a1"]
    assert talk.select("^seq .mc > .cb[role='assistant']:first") == ["a1"]
    assert talk.select("^seq .mt > .cb:post:first") == ["post1", "post2"]
    assert talk.select(".cb:nth(99)") == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("[offset<0]", ["pre1"]),
        ("[offset>=1]", ["post1", "post2"]),
        ("[offset!=0]", ["pre1", "post1", "post2"]),
        ("[priority=7]", ["law"]),
        ("[priority>6.5]", ["law"]),
        ("[ttl]", ["post2"]),
        ("[ttl=null]", ["law", "pre1", "u1", "a1", "post1", "u2"]),
        ("[ttl!=null]", ["post2"]),
        ("[ttl!=4]", ["law", "pre1", "u1", "a1", "post1", "u2"]),
        ("[ttl<=4]", ["post2"]),
        ("[ttl<null]", []),
        ("[ttl=1-3]", []),
        ("[ttl=4-9]", ["post2"]),
        ("[ttl=9-4]", ["post2"]),
        ("[ttl!=4-9]", ["law", "pre1", "u1", "a1", "post1", "u2"]),
        ("[offset=-5--1]", ["pre1"]),
        ("[priority=6.5-7.5]", ["law"]),
        ("[role=1-3]", []),
        ("[data_n=9-10]", ["post1"]),
        ("[ttl>='4']", ["post2"]),
        ("[ttl<'many']", []),
        ("[cycle=2]", ["u2", "post2"]),
        ("[cycle>1][offset>0]", ["post2"]),
        ("[created_at_ns>=1700000000000000000]", "all"),
        ("[created_at_iso>='2023']", "all"),
        ("[created_at_iso<'2023']", []),
        ("[id='law']", ["law"]),
        ("[id!='law'][role=system]", []),
        ("[role='system']", ["law"]),
        ("[role=System]", []),
        ("[role>'user']", []),
        ("[role<'system']", ["a1"]),
        ('[kind="text"]', "all"),
        ("[kind!='text']", []),
        ("[nodeType='cb:summary']", ["post1"]),
        ("[data_n]", ["post1", "u2"]),
        ("[data_n=10]", ["post1"]),
        ("[data_n='10']", []),
        ("[data_n='9']", ["u2"]),
        ("[data_n>9]", ["post1"]),
        ("[data_n<10]", ["u2"]),
        ("[data_n<'a']", ["post1", "u2"]),
        ("[data_flag=true]", ["u2"]),
        ("[data_flag='true']", ["u2"]),
        ("[data_flag=1]", []),
        ("[unknown=null]", "all"),
        ("[unknown='']", []),
        ("[ role = 'system' ]", ["law"]),
    ],
)
def test_attribute_conditions(talk, condition, expected):
    blocks = talk.select(".cb")
    assert talk.select(f".cb{condition}") == (blocks if expected == "all" else expected)


def test_empty_text_differs_from_null(session):
    session.append(make_content("dialogue", text="x"), Placement(id="x", attributes={"data_a": ""}))
    assert session.select("@w [data_a='']") == ["x"]
    assert session.select("@w .cb[data_a=null]") == []


def test_quoted_texts_can_hold_quotes(session):
    names = ["it's", 'say "x"', "back\\slash", "a:first"]
    for name in names:
        session.append(make_content("dialogue", text="x"), Placement(id=name))
    for name, written in zip(
        names, ['"it\'s"', "'say \"x\"'", r"'back\\slash'", "'a:first'"], strict=True
    ):
        assert session.select(f"@w [id={written}]") == [name]
    assert session.select(r"@w [id='it\'s']") == ["it's"]


@pytest.mark.parametrize(
    ("text", "node_type", "node_id", "pseudos"),
    [
        (".cb:summary", "cb:summary", None, []),
        (".cb:pre", "cb", None, ["pre"]),
        (".cb:summary:first", "cb:summary", None, ["first"]),
        (".cb:preview", "cb:preview", None, []),
        (".a:b:c", "a:b:c", None, []),
        ("#cb:u2", None, "cb:u2", []),
        ("#cb:u2:last", None, "cb:u2", ["last"]),
        ("#x.cb:core:post", "cb", "x", ["core", "post"]),
    ],
)
def test_names_end_where_a_pseudo_class_begins(text, node_type, node_id, pseudos):
    (step,) = parse_selector(text).groups[0]
    assert (step.type, step.id) == (node_type, node_id)
    assert [pseudo.name for pseudo in step.pseudos] == pseudos


def test_groups_are_a_union_from_left_to_right(talk):
    assert talk.select("#u2, ^seq .mc > .cb, #law") == ["u2", "u1", "a1", "law"]


def test_default_snapshot_is_the_last_commit(talk):
    assert talk.select(".cb") == talk.select("@t0 .cb") == talk.select("@c2 .cb")
    assert "draft" not in talk.select(".cb")
    assert "draft" in talk.select("@w .cb")


def test_all_snapshots_newest_first_each_id_once(session, say):
    a = say(session, "a", ttl=1)
    session.commit()
    b = say(session, "b", ttl=1)
    session.commit()
    c = say(session, "c")
    session.commit()
    assert session.select("@* .cb") == [c, b, a]
    assert session.select(f"@* #{a}") == [a]


def test_wildcard_step(talk):
    assert talk.select("^seq > *") == talk.select("^seq > .mt")
    assert talk.select("*")[0] == "^root"


@pytest.mark.parametrize(
    "text",
    ["@t-5..@t-1", "@t-5:@t-1", "@t-5..-1", "@t-5:-1"],
)
def test_ranges_have_four_spellings(text):
    assert parse_selector(f"{text} .cb").address == Between(At("t", -5), At("t", -1))


def test_ranges_of_cycles():
    assert parse_selector("@c3..@c5 .cb").address == Between(At("c", 3), At("c", 5))
    assert parse_selector("@c3:5 .cb").address == Between(At("c", 3), At("c", 5))


@pytest.mark.parametrize("text", ["@t-1..@c3 .cb", "@c1:@t0 .cb", "@t-1..@w .cb"])
def test_ranges_of_mixed_kinds_are_errors(text):
    with pytest.raises(RangeKindError) as caught:
        parse_selector(text)
    assert caught.value.code == "E_SNAPSHOT_RANGE_KIND_MISMATCH"


@pytest.mark.parametrize("text", ["@*..@t0 .cb", "@t-1..@* .cb", "@*:@* .cb"])
def test_ranges_with_a_wildcard_are_errors(text):
    with pytest.raises(RangeWildcardError) as caught:
        parse_selector(text)
    assert caught.value.code == "E_SNAPSHOT_RANGE_WILDCARD"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("   ", 3),
        ("@t0", 3),
        ("@t0 ^foo", 4),
        ("^system", 0),
        ("cb", 0),
        (".", 1),
        (".1", 1),
        ("#", 1),
        (".cb[", 4),
        (".cb[role", 8),
        (".cb[role=", 9),
        (".cb[role='x]", 9),
        (".cb[role==1]", 9),
        (".cb[role~='x']", 8),
        (".cb[ttl=1.]", 8),
        (".cb[1=1]", 4),
        (".cb[ttl=1-]", 10),
        (".cb[ttl=1-x]", 10),
        (".cb[ttl=1-2-3]", 11),
        (".cb[ttl<1-3]", 11),
        (".cb:first[role='x']", 9),
        (".mt:depth", 3),
        (".mt:depth()", 3),
        (".mt:depth(0)", 10),
        (".mt:depth(-1)", 10),
        (".mt:depth(a)", 10),
        (".mt:depth(1", 11),
        (".mt:depth(1,)", 12),
        (".cb:nth", 3),
        (".cb:nth(1,2)", 3),
        (".cb:nth(1-2)", 3),
        (".cb:first(1)", 3),
        (":unknown", 0),
        ("^ah:summary", 3),
        (".cb:summary(1)", 11),
        (".cb >", 5),
        ("> .cb", 0),
        (".cb > > .cb", 6),
        (".cb,", 4),
        (", .cb", 0),
        (".cb;", 3),
        ("@x .cb", 0),
        ("@t .cb", 0),
        ("@c-1 .cb", 0),
        ("@t0.. .cb", 5),
        ("*.cb", 1),
        (f"[ttl={'9' * 5000}]", 5),
        (f"@t-{'9' * 5000} .cb", 5003),
    ],
)
def test_invalid_selectors_name_their_position(text, position):
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert caught.value.code == "E_SELECTOR_INVALID"
    assert caught.value.position == position
    assert caught.value.exit_code == ExitCode.USAGE


def test_selecting_has_no_side_effect(talk):
    before = talk.export()
    for query in ("@* *", ".cb", "@t-1..@t0 .cb", "@w ^ah .cb"):
        assert talk.select(query) == talk.select(query)
    assert talk.export() == before
