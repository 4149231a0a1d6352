"""One test per field that takes part in an id, or does not; and equal basis means equal key."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from indexer.core.frames import (
    BasisHash,
    BodyHash,
    ChildBody,
    ChildFrame,
    Fingerprint,
    FrameId,
    basis_of_content,
    basis_of_frame,
    basis_of_generated,
    basis_of_listing,
    basis_of_synthesis,
    body_hash,
    fingerprint,
    frame_id,
    key_of_file,
    key_of_folder,
)
from indexer.core.hashing import workspace_hash
from indexer.core.ids import ContentId, NodeId
from indexer.core.kinds import Kind
from tests.support.space import Space

BASIS = basis_of_content(NodeId(b"n" * 16))
BODY = body_hash("said")
ID = frame_id(BASIS, "note", "ann", BODY)
XXH3 = workspace_hash("xxh3_128")


def test_basis_takes_part_in_the_frame_id() -> None:
    assert frame_id(basis_of_content(NodeId(b"m" * 16)), "note", "ann", BODY) != ID


def test_type_takes_part_in_the_frame_id() -> None:
    assert frame_id(BASIS, "todo", "ann", BODY) != ID


def test_agent_takes_part_in_the_frame_id() -> None:
    assert frame_id(BASIS, "note", "bob", BODY) != ID


def test_content_takes_part_in_the_frame_id() -> None:
    assert frame_id(BASIS, "note", "ann", body_hash("said otherwise")) != ID


def test_fields_of_the_frame_id_do_not_run_together() -> None:
    assert frame_id(BASIS, "no", "teann", BODY) != frame_id(BASIS, "note", "ann", BODY)


def test_time_takes_no_part_in_the_frame_id(project: Space) -> None:
    first = project.note("src/one/a.py", "same")
    other = project.clone()
    try:
        other.engine.scan()
        assert other.note("src/one/a.py", "same")["frame_id"] == first["frame_id"]
        times = [
            one.engine.list_frames("src/one/a.py", frame_type="note")["frames"][0]["created_at"]
            for one in (project, other)
        ]
        assert times[0] != times[1]
    finally:
        other.close()


def test_metadata_takes_no_part_in_the_frame_id(project: Space) -> None:
    first = project.note("src/one/a.py", "same", meta={"mood": "good"})
    again = project.note("src/one/a.py", "same", meta={"mood": "bad"})
    assert (again["frame_id"], again["created"]) == (first["frame_id"], False)


def test_frame_id_is_the_documented_hash() -> None:
    import hashlib

    fields = (b"frame", BASIS, b"note", b"ann", hashlib.sha256(b"said").digest())
    text = b"".join(len(field).to_bytes(8, "big") + field for field in fields)
    assert hashlib.sha256(text).digest() == ID


def test_kinds_of_basis_are_apart() -> None:
    raw = b"n" * 16
    made = {
        basis_of_content(NodeId(raw)),
        basis_of_listing(raw, []),
        basis_of_frame(raw, "", BodyHash(b"")),
        basis_of_generated(NodeId(raw), Fingerprint(b""), None),
        basis_of_synthesis(raw, "", Fingerprint(b""), []),
    }
    assert len(made) == 5


def test_node_takes_part_in_a_generated_basis() -> None:
    made = {basis_of_generated(NodeId(node), Fingerprint(b"f"), None) for node in (b"a", b"b")}
    assert len(made) == 2


def test_fingerprint_takes_part_in_a_generated_basis() -> None:
    made = {basis_of_generated(NodeId(b"n"), Fingerprint(fp), None) for fp in (b"a", b"b")}
    assert len(made) == 2


def test_input_frame_takes_part_in_a_generated_basis() -> None:
    frames = (None, FrameId(b"a" * 32), FrameId(b"b" * 32))
    made = {basis_of_generated(NodeId(b"n"), Fingerprint(b"f"), one) for one in frames}
    assert len(made) == 3


CHILD = ChildFrame(NodeId(b"n"), b"name", "file", FrameId(b"f" * 32))


def synthesis(
    path: bytes = b"p", kind: str = "t", policy: bytes = b"y", child: ChildFrame = CHILD
) -> BasisHash:
    return basis_of_synthesis(path, kind, Fingerprint(policy), [child])


def test_path_takes_part_in_a_synthesis_basis() -> None:
    assert synthesis(path=b"q") != synthesis()


def test_type_takes_part_in_a_synthesis_basis() -> None:
    assert synthesis(kind="u") != synthesis()


def test_policy_takes_part_in_a_synthesis_basis() -> None:
    assert synthesis(policy=b"z") != synthesis()


def test_childs_name_takes_part_in_a_synthesis_basis() -> None:
    assert synthesis(child=CHILD._replace(name=b"other")) != synthesis()


def test_childs_kind_takes_part_in_a_synthesis_basis() -> None:
    assert synthesis(child=CHILD._replace(kind="directory")) != synthesis()


def test_childs_frame_takes_part_in_a_synthesis_basis() -> None:
    assert synthesis(child=CHILD._replace(frame_id=FrameId(b"g" * 32))) != synthesis()


def test_a_childs_absence_takes_part_in_a_synthesis_basis() -> None:
    assert synthesis(child=CHILD._replace(frame_id=None)) != synthesis()


def test_order_of_children_takes_no_part_in_a_synthesis_basis() -> None:
    children = [CHILD._replace(node_id=NodeId(bytes([n])), name=bytes([n])) for n in range(5)]
    forwards = basis_of_synthesis(b"p", "t", Fingerprint(b"y"), children)
    assert basis_of_synthesis(b"p", "t", Fingerprint(b"y"), children[::-1]) == forwards


def test_every_part_takes_part_in_a_fingerprint() -> None:
    parts = [("name", "outline"), ("version", "1")]
    made = {
        fingerprint(parts),
        fingerprint([("name", "outline"), ("version", "2")]),
        fingerprint([("name", "outline")]),
        fingerprint([("name", "outlineversion"), ("", "1")]),
    }
    assert len(made) == 4


# -- equal basis implies equal key


names = st.sampled_from([b"a", b"b", b"ab", b"a/b", b"\xff"])
contents = st.binary(max_size=2)
prints = st.sampled_from([Fingerprint(b"1" * 32), Fingerprint(b"2" * 32)])
bodies = st.sampled_from(["", "one", "two"])


@given(
    first=st.tuples(st.sampled_from([b"", b"d"]), names, contents, prints),
    second=st.tuples(st.sampled_from([b"", b"d"]), names, contents, prints),
)
def test_equal_basis_implies_equal_key_for_files(
    first: tuple[bytes, bytes, bytes, Fingerprint], second: tuple[bytes, bytes, bytes, Fingerprint]
) -> None:
    def made(
        folder: bytes, name: bytes, content: bytes, made_by: Fingerprint
    ) -> tuple[bytes, bytes]:
        content_id = XXH3.of_file(content)
        path = folder + b"/" + name if folder else name
        node_id = XXH3.node_id(Kind.FILE, path, content_id)
        last = path.rsplit(b"/", 1)[-1]
        return (
            basis_of_generated(node_id, made_by, None),
            key_of_file(made_by, "t", last, content_id),
        )

    one, two = made(*first), made(*second)
    if one[0] == two[0]:
        assert one[1] == two[1]


children = st.lists(
    st.tuples(names, st.sampled_from(["file", "directory", "link"]), contents, st.none() | bodies),
    max_size=3, unique_by=lambda child: child[0],
)  # fmt: skip


@given(
    first=st.tuples(st.sampled_from([b"", b"d"]), prints, children),
    second=st.tuples(st.sampled_from([b"", b"d"]), prints, children),
)
def test_equal_basis_implies_equal_key_for_folders(
    first: tuple[bytes, Fingerprint, list[tuple[bytes, str, bytes, str | None]]],
    second: tuple[bytes, Fingerprint, list[tuple[bytes, str, bytes, str | None]]],
) -> None:
    def made(
        path: bytes, policy: Fingerprint, listed: list[tuple[bytes, str, bytes, str | None]]
    ) -> tuple[bytes, bytes]:
        frames, seen = [], []
        for name, kind, content, body in sorted(listed):
            node_id = XXH3.node_id(Kind.FILE, path + b"/" + name, ContentId(content))
            identity = None
            if body is not None:
                basis = basis_of_generated(node_id, policy, None)
                identity = frame_id(basis, "t", "merkle:x", body_hash(body))
            frames.append(ChildFrame(node_id, name, kind, identity))
            seen.append(ChildBody(name, kind, None if body is None else body_hash(body)))
        return basis_of_synthesis(path, "t", policy, frames), key_of_folder(policy, "t", seen)

    one, two = made(*first), made(*second)
    if one[0] == two[0]:
        assert one[1] == two[1]


def test_equal_basis_implies_equal_key_in_a_store(project: Space) -> None:
    """Every frame that was ever stored: one basis of a type has one content."""
    for text in ("x = 1\n", "y = 2\n", "x = 1\n"):
        project.write("src/one/a.py", text)
        project.events()
    project.engine.invalidate("")
    project.events()
    rows = project.engine.sql(
        "SELECT basis, type, count(DISTINCT content_sha256) FROM frames GROUP BY 1, 2"
    )["rows"]
    assert {count for _, _, count in rows} == {1}
    indexed = project.engine.sql("SELECT basis, frame_ids FROM basis")["rows"]
    stored = project.engine.sql("SELECT basis, frame_id FROM frames")["rows"]
    index = {basis: ids if isinstance(ids, list) else json.loads(ids) for basis, ids in indexed}
    assert all(identity in index[basis] for basis, identity in stored)


def test_keys_do_not_contain_the_place() -> None:
    content = XXH3.of_file(b"x")
    made_by = Fingerprint(b"1" * 32)
    assert key_of_file(made_by, "t", b"a.py", content) == key_of_file(
        made_by, "t", b"a.py", content
    )
    keys = {
        key_of_file(made_by, "t", b"a.py", content),
        key_of_file(made_by, "t", b"b.py", content),
        key_of_file(made_by, "u", b"a.py", content),
        key_of_file(Fingerprint(b"2" * 32), "t", b"a.py", content),
        key_of_file(made_by, "t", b"a.py", XXH3.of_file(b"y")),
        key_of_folder(made_by, "t", []),
    }
    assert len(keys) == 6
