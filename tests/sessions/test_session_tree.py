"""The tree: regions, headers, order, placement, references, moves and removals."""

from __future__ import annotations

import pytest

from indexer.sessions import Placement, Session, import_session, make_content
from indexer.sessions.documents import parse_document
from indexer.sessions.node import AttributeNameError, HeaderError, Node, canonical_type
from indexer.sessions.placement import (
    CoreError,
    CycleError,
    IdTakenError,
    NodeNotFoundError,
    PlacementError,
    ReferencedError,
    SealedError,
)
from indexer.sessions.view import preorder

REQUIRED = {
    "id",
    "nodeType",
    "offset",
    "ttl",
    "priority",
    "cycle",
    "created_at_ns",
    "created_at_iso",
    "creation_index",
}


def turn_of(session: Session, depth: int = 1) -> str:
    (turn,) = session.select(f"^seq .mt:depth({depth})")
    return turn


def test_regions_exist_under_the_root(session):
    root = session.document()["root"]
    assert root["nodeType"] == "^root"
    assert [child["nodeType"] for child in root["children"]] == ["^sys", "^seq", "^ah"]


def test_regions_exist_after_import_of_a_tree_without_them():
    session = import_session({"root": {}}, "s")
    types = [child["nodeType"] for child in session.document()["root"]["children"]]
    assert types == ["^sys", "^seq", "^ah"]


def test_every_node_carries_the_required_headers(session, say):
    say(session, "hello", offset=-1)
    say(session, "hello")
    session.commit()
    view = session.view()
    for node in preorder(view, view.root_id):
        assert node.headers().keys() >= REQUIRED


def test_blocks_at_offset_0_share_one_core(session, say):
    say(session, "question")
    say(session, "answer", role="assistant")
    session.commit()
    (turn,) = session.document()["root"]["children"][1]["children"]
    cores = [child for child in turn["children"] if child["nodeType"] == "mc"]
    assert len(cores) == 1
    assert cores[0]["offset"] == 0
    assert [block["content"] for block in cores[0]["children"]] == ["question", "answer"]


@pytest.mark.parametrize("offsets", [(), (-1,), (1, -2)])
def test_every_sealed_turn_has_exactly_one_core(session, say, offsets):
    for offset in offsets:
        say(session, "beside", offset=offset)
    session.commit()
    assert len(session.select("^seq .mt > .mc")) == 1


def test_two_cores_in_a_turn_are_refused(session, say):
    session.apply(session.plan_group(Placement(node_type="mc"), removable=False))
    with pytest.raises(CoreError) as caught:
        session.plan_group(Placement(node_type="mc"))
    assert caught.value.code == "E_CORE_DUPLICATE"


def test_two_cores_in_an_imported_turn_are_refused():
    cores = [{"id": "m1", "nodeType": "mc"}, {"id": "m2", "nodeType": "mc"}]
    head = {"nodeType": "^ah", "children": cores}
    with pytest.raises(CoreError):
        parse_document({"root": {"children": [head]}})


def test_a_second_active_head_is_refused():
    heads = [{"id": "a", "nodeType": "^ah"}, {"id": "b", "nodeType": "^ah"}]
    with pytest.raises(PlacementError):
        parse_document({"root": {"children": heads}})


def test_canonical_sibling_order():
    keys = [
        (-1, 1000, 0, "a"),
        (-1, 1000, 1, "z"),
        (0, 3, 9, "m"),
        (0, 4, 0, "b"),
        (0, 4, 0, "c"),
        (2, 0, 0, "a2"),
    ]
    nodes = [
        {
            "id": node_id,
            "offset": offset,
            "created_at_ns": ns,
            "creation_index": index,
            "content": "",
        }
        for offset, ns, index, node_id in reversed(keys)
    ]
    document = {"root": {"children": [{"nodeType": "^sys", "children": nodes}]}}
    found = import_session(document, "s").select("^sys .cb")
    assert found == [key[3] for key in keys]


def test_offset_decides_before_time(session, say):
    late = [say(session, "post", offset=1), say(session, "core"), say(session, "pre", offset=-1)]
    session.commit()
    assert session.select("^seq .cb") == list(reversed(late))


def test_creation_times_are_strictly_increasing_under_a_standing_clock(session, say):
    for number in range(5):
        say(session, str(number))
    session.commit()
    view = session.view("@w")
    times = [n.created_at_ns for n in preorder(view, view.root_id) if n.created_at_ns]
    assert len(times) == len(set(times))
    indexes = sorted(n.creation_index for n in preorder(view, view.root_id) if n.cycle == 1)
    assert indexes == list(range(7))


def test_a_clock_that_goes_back_does_not_reorder_turns(clock, session, say):
    first = say(session, "first")
    session.commit()
    clock.advance(-3600)
    second = say(session, "second")
    session.commit()
    assert session.select("^seq .cb") == [first, second]


def test_canonical_mapping_of_user_types():
    assert canonical_type("cb:summary") == "cb"
    assert canonical_type("mc:special") == "mc"
    assert canonical_type("custom:note") == "cb"
    assert canonical_type("unheard-of") == "cb"
    assert canonical_type("^sys") == "^sys"


def test_unknown_types_of_imported_nodes_count_as_blocks():
    node = {"id": "x", "nodeType": "mystery", "content": "?"}
    document = {"root": {"children": [{"nodeType": "^sys", "children": [node]}]}}
    session = import_session(document, "s")
    assert session.select("^sys .cb") == ["x"]
    assert session.select("[nodeType='mystery']") == ["x"]


def test_new_types_must_be_namespaced(session):
    content = make_content("dialogue", text="x")
    with pytest.raises(HeaderError):
        session.append(content, Placement(node_type="summary"))
    assert session.append(content, Placement(node_type="cb:summary"))


@pytest.mark.parametrize("key", ["note", "id", "content_hash", "ttl", "cb:references", "children"])
def test_attributes_must_be_namespaced(session, key):
    with pytest.raises(AttributeNameError) as caught:
        session.append(make_content("dialogue", text="x"), Placement(attributes={key: 1}))
    assert caught.value.code == "E_ATTRIBUTE_INVALID"


def test_attributes_are_carried_and_found(session, say):
    node = say(session, "x", attributes={"data_frame": "f1", "cb:source": "pull"})
    session.commit()
    assert session.select("[data_frame='f1'][cb:source=pull]") == [node]


@pytest.mark.parametrize(
    "where", [{"offset": 1.5}, {"ttl": -1}, {"priority": True}, {"id": ""}, {"id": "\ud800"}]
)
def test_headers_of_the_wrong_type_are_refused(session, say, where):
    before = session.export()
    with pytest.raises(HeaderError):
        say(session, "x", **where)
    assert session.export() == before


def test_given_ids_are_kept_and_never_reused(session, say):
    assert say(session, "x", id="cb:Mine") == "cb:Mine"
    session.apply(session.plan_remove("cb:Mine"))
    with pytest.raises(IdTakenError) as caught:
        say(session, "y", id="cb:Mine")
    assert caught.value.code == "E_ID_TAKEN"


def test_own_ids_depend_on_name_cycle_index_and_content(clock):
    def made(name: str, text: str, commits: int = 0, before: int = 0) -> str:
        session = Session.new(name, clock=clock)
        for _ in range(commits):
            session.commit()
        for _ in range(before):
            session.append(make_content("dialogue", text="earlier"))
        return session.append(make_content("dialogue", text=text)).node_id

    base = made("s", "x")
    assert base == made("s", "x")
    assert len({base, made("t", "x"), made("s", "y"), made("s", "x", 1), made("s", "x", 0, 1)}) == 5


def test_invalid_placements_are_rejected(session, say):
    block = say(session, "x")
    session.commit()
    before = session.export()
    turn = turn_of(session)
    (core,) = session.select("^seq .mc")
    content = make_content("dialogue", text="y")
    refused = [
        (Placement(parent="nowhere"), NodeNotFoundError),
        (Placement(parent="^root"), PlacementError),
        (Placement(parent="^seq"), PlacementError),
        (Placement(parent=core), SealedError),
        (Placement(parent=block), SealedError),
        (Placement(parent=turn, offset=0), SealedError),
        (Placement(parent="^ah", node_type="mt"), PlacementError),
        (Placement(parent="^sys", node_type="mc"), PlacementError),
        (Placement(parent="^ah", node_type="mc", offset=2), PlacementError),
        (Placement(region="seq"), PlacementError),
        (Placement(node_type="cb:edit"), PlacementError),
    ]
    for where, error in refused:
        with pytest.raises(error):
            session.append(content, where)
    assert session.export() == before


def test_a_core_beside_blocks_at_offset_0_is_refused():
    head = {"nodeType": "^ah", "children": [{"id": "b", "offset": 0, "content": ""}]}
    session = import_session({"root": {"children": [head]}}, "s")
    with pytest.raises(PlacementError):
        session.plan_group(Placement(node_type="mc"))
    both = [*head["children"], {"id": "m", "nodeType": "mc"}]
    with pytest.raises(PlacementError):
        parse_document({"root": {"children": [{"nodeType": "^ah", "children": both}]}})


def test_blocks_join_the_implicit_core_of_an_imported_head(say):
    head = {"nodeType": "^ah", "children": [{"id": "b", "offset": 0, "content": "x"}]}
    session = import_session({"root": {"children": [head]}}, "s")
    say(session, "y", id="c")
    session.commit()
    assert session.select("^seq .mt > .cb") == ["b", "c"]
    assert session.select("^seq .mc > .cb") == ["b", "c"]
    assert session.select("^seq .mc") == []


def test_blocks_can_be_attached_to_sealed_turns(session, say):
    core = say(session, "x")
    session.commit()
    note = say(session, "a summary", parent=turn_of(session), offset=1, node_type="cb:summary")
    session.commit()
    assert session.select("^seq .mt:depth(2) .cb") == [core, note]


def test_moves_before_the_commit_keep_the_id(session, say):
    block = say(session, "x", offset=1)
    session.apply(session.plan_move(block, "^sys"))
    session.commit()
    assert session.select("^sys .cb") == [block]
    assert session.select("^seq .cb") == []


def test_moves_across_regions_after_the_commit_are_remove_and_add(session, say):
    block = say(session, "x", region="sys")
    session.commit()
    session.apply(session.plan_move(block, "^ah", 1))
    session.commit()
    (again,) = session.select("^seq .cb")
    assert again != block
    difference = session.diff("@t-1", "@t0")
    assert block in difference["removed"]
    assert again in difference["added"]
    assert all(change["id"] != block for change in difference["changed"])
    assert session.moves("@t-1", "@t0") == [{"removed": block, "added": again}]
    assert session.select("@t-1 ^sys .cb") == [block]
    assert [m.content for m in session.compile().messages] == ["x"]


def test_moves_within_a_region_show_as_a_changed_parent(session, say):
    note = say(session, "note", offset=1)
    session.commit()
    session.commit()
    session.apply(session.plan_move(note, turn_of(session, 1), 2))
    session.commit()
    changed = session.diff("@t-1", "@t0")["changed"]
    assert changed == [{"id": note, "fields": ["offset", "parent"]}]


def test_what_is_sealed_cannot_be_moved_or_removed(session, say):
    block = say(session, "x")
    session.commit()
    (core,) = session.select("^seq .mc")
    for node in (block, core, turn_of(session)):
        with pytest.raises(SealedError):
            session.plan_move(node, "^sys")
        with pytest.raises(SealedError):
            session.plan_remove(node)


@pytest.mark.parametrize("region", ["^root", "^sys", "^seq", "^ah"])
def test_regions_cannot_be_moved_or_removed(session, region):
    with pytest.raises(PlacementError):
        session.plan_remove(region)
    with pytest.raises(PlacementError):
        session.plan_move(region, "^ah")


def test_a_node_cannot_move_below_itself(session):
    session.apply(session.plan_group(Placement(id="outer", node_type="cb:group", offset=1)))
    session.apply(session.plan_group(Placement(id="inner", node_type="cb:group", parent="outer")))
    for parent in ("outer", "inner"):
        with pytest.raises(CycleError) as caught:
            session.plan_move("outer", parent)
        assert caught.value.code == "E_CYCLE"


def test_a_document_that_contains_itself_is_refused():
    node: dict[str, object] = {"nodeType": "cb:group"}
    node["children"] = [node]
    with pytest.raises(CycleError):
        parse_document({"root": {"children": [{"nodeType": "^sys", "children": [node]}]}})


def test_a_document_deeper_than_the_limit_is_refused():
    node: dict[str, object] = {"nodeType": "cb:group", "children": []}
    for _ in range(100):
        node = {"nodeType": "cb:group", "children": [node]}
    with pytest.raises(PlacementError):
        parse_document({"root": {"children": [{"nodeType": "^sys", "children": [node]}]}})


def test_references_protect_against_removal(session, say):
    target = say(session, "x", offset=1)
    referrer = say(session, "y", offset=1, references=(target,))
    with pytest.raises(ReferencedError) as caught:
        session.plan_remove(target)
    assert caught.value.code == "E_REFERENCED"
    session.apply(session.plan_remove(referrer))
    session.apply(session.plan_remove(target))


def test_references_must_name_nodes_that_are_there(session, say):
    with pytest.raises(NodeNotFoundError):
        say(session, "x", references=("gone",))


def test_removal_takes_everything_below(session, say):
    session.apply(session.plan_group(Placement(id="g", node_type="cb:group", offset=1)))
    inner = say(session, "x", parent="g")
    session.apply(session.plan_remove("g"))
    assert session.select("@w #g") == []
    assert session.view("@w").node(inner) is None


def test_removing_a_committed_node_leaves_older_snapshots_alone(session, say):
    note = say(session, "x", offset=1)
    session.commit()
    session.apply(session.plan_remove(note))
    assert session.select(f"#{note}") == [note]
    assert session.select(f"@w #{note}") == []
    session.commit()
    assert session.select(f"#{note}") == []
    assert session.select(f"@t-1 #{note}") == [note]


def test_duplicate_ids_in_a_document_are_refused():
    twice = [{"id": "x", "content": ""}, {"id": "x", "content": ""}]
    with pytest.raises(IdTakenError):
        parse_document({"root": {"children": [{"nodeType": "^sys", "children": twice}]}})


def test_regions_are_never_removable():
    with pytest.raises(HeaderError):
        parse_document({"root": {"children": [{"nodeType": "^ah", "removable": True}]}})


def test_headers_of_a_node_are_immutable(session, say):
    node = session.view("@w").node(say(session, "x"))
    assert isinstance(node, Node)
    with pytest.raises(AttributeError):
        node.ttl = 3
