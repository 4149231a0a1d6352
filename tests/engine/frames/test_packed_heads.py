"""Heads by path: what is put in comes out, whatever it is made of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexer.core.frames import Action, Head
from indexer.engine.frames.packed_heads import PackedHeads

HASHES = st.one_of(st.binary(min_size=32, max_size=32), st.sampled_from([b"", b"damaged"]))
HEADS = st.builds(
    Head,
    HASHES,
    HASHES,
    HASHES,
    st.one_of(st.none(), st.binary(min_size=16, max_size=32)),
    st.one_of(st.none(), st.sampled_from([b"", b"one", b"two" * 11])),
    st.sampled_from(Action),
)
PATHS = st.sampled_from(["", "a", "a/b", "c"])


@given(st.lists(st.tuples(PATHS, st.one_of(st.none(), HEADS))))
def test_they_are_what_was_put_in(changes: list[tuple[str, Head | None]]) -> None:
    heads, expected = PackedHeads(), dict[str, Head]()
    for path, head in changes:
        before, was = heads.copy(), dict(expected)
        if head is None:
            heads.discard(path)
            expected.pop(path, None)
        else:
            heads.put(path, head)
            expected[path] = head
            assert heads.frame_id(path) == head.frame_id
        assert dict(heads.items()) == expected
        assert {path: heads.get(path) for path in expected} == expected
        assert (heads.places(), len(heads)) == (set(expected), len(expected))
        assert (path in heads) == (path in expected)
        # A copy stays as it was.
        assert dict(before.items()) == was
    assert heads.get("never") is None
