"""What every built-in policy promises; the spec's criteria of branch synthesis by name."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.core.twice import NonDeterministicError
from indexer.synthesis import (
    ChildInput,
    Policy,
    Tokens,
    make_policy,
    policy_names,
    verified,
)
from indexer.synthesis.base import (
    KINDS,
    PolicyOptionsError,
    UnknownPolicyError,
)

ROOT = Path(__file__).parents[2]
# A byte is a token at most, so this counter is as strict as any.
BYTES = Tokens("bytes", lambda text: len(text.encode("utf-8", "replace")))
POLICIES: list[tuple[str, dict[str, object]]] = [
    ("concatenate", {}),
    ("concatenate", {"headings": False, "absent": "skip", "max_tokens": 200}),
    ("summarize", {"max_tokens": 300}),
    ("filter", {"kinds": ["file"], "then": "summarize", "options": {"max_tokens": 64}}),
    ("filter", {"include": ["*.py", "a*"], "exclude": ["*b*"], "framed": True}),
]
NAMES = st.text("abc.y_é", min_size=1, max_size=8)
BODIES = (
    st.none()
    | st.sampled_from(
        [
            "[python] A module.\nimports: os\nclass A(B) -- Doc.\n  def m(self)\ndef f(x)\n",
            "[markdown] Title\n> First. Second sentence.\n- Part\n",
            "[folder] Sub\n- x.py -- y\nalso: q, r\n",
            "[folder] empty\n",
            "# Heading\n\nFree text of a model.",
            "",
        ]
    )
    | st.text(max_size=60)
)


def children_of(entries: Sequence[tuple[str, str, str | None]]) -> list[ChildInput]:
    unique = {name: (kind, body) for name, kind, body in entries}
    ordered = sorted(unique, key=lambda name: name.encode())
    return [ChildInput(name, *unique[name]) for name in ordered]


CHILDREN = st.lists(st.tuples(NAMES, st.sampled_from(KINDS), BODIES), max_size=12).map(children_of)


@pytest.fixture(params=POLICIES, ids=lambda p: f"{p[0]}-{len(p[1])}")
def policy(request: pytest.FixtureRequest) -> Policy:
    name, options = request.param
    return make_policy(name, options, tokens=BYTES)


@pytest.mark.parametrize(("name", "options"), POLICIES)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(children=CHILDREN)
def test_same_child_frames_give_same_branch_frame(
    name: str, options: dict[str, object], children: list[ChildInput]
) -> None:
    one = make_policy(name, options, tokens=BYTES)
    other = make_policy(name, dict(reversed(options.items())), tokens=BYTES)
    text = verified(one).synthesize(children)
    assert text == other.synthesize(tuple(children))
    assert one.fingerprint_parts() == other.fingerprint_parts()
    assert text.endswith("\n")


def test_same_child_frames_give_same_branch_frame_under_another_hash_seed() -> None:
    program = f"""
from indexer.synthesis import ChildInput, Tokens, make_policy
children = [ChildInput(f"n{{n:03}}.py", "file", f"[python] Doc {{n}}.\\ndef f{{n}}(a)\\n")
            for n in range(100)]
for name, options in {POLICIES!r}:
    policy = make_policy(name, options, tokens=Tokens("len", len))
    print(policy.fingerprint_parts(), policy.synthesize(children))
"""
    seen = set()
    for seed in ("0", "1", "99"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_child_change_changes_the_branch_frame() -> None:
    before = [ChildInput("a.py", "file", "[python] One.\n")]
    after = [ChildInput("a.py", "file", "[python] Two.\n")]
    for name in ("concatenate", "summarize"):
        policy = make_policy(name, tokens=BYTES)
        assert policy.synthesize(before) != policy.synthesize(after)


def test_synthesis_is_limited_to_the_children(policy: Policy) -> None:
    # A policy is given nothing but its children: neither the folder's name nor its place.
    child = ChildInput("a.py", "file", "[python] One.\n")
    assert set(ChildInput.__dataclass_fields__) == {"name", "kind", "body"}
    assert policy.synthesize([child]) == policy.synthesize([child])


def test_no_synthesis_without_declared_trigger() -> None:
    calls: list[str] = []

    def count(text: str) -> int:
        calls.append(text)
        return len(text)

    for name in policy_names():
        make_policy(name, tokens=Tokens("len", count)).fingerprint_parts()
    assert calls == []


def test_empty_directory_produces_stable_empty_frame(policy: Policy) -> None:
    assert policy.synthesize([]) == policy.synthesize(()) == "[folder] empty\n"


def test_synthesis_preserves_frame_ordering() -> None:
    children = [ChildInput(name, "file", f"[text] said {name}\n") for name in "BaZcé"]
    for name in ("concatenate", "summarize"):
        text = make_policy(name, tokens=BYTES).synthesize(children)
        places = [text.index(f"said {child.name}") for child in children]
        assert places == sorted(places)


def test_verified_refuses_a_policy_that_is_not_deterministic() -> None:
    class Counting:
        name, version = "counting", "1"
        numbers = itertools.count()

        def fingerprint_parts(self) -> tuple[tuple[str, str], ...]:
            return ()

        def synthesize(self, children: Sequence[ChildInput]) -> str:
            return str(next(self.numbers))

    with pytest.raises(NonDeterministicError, match="counting"):
        verified(Counting()).synthesize([])


def test_fingerprints_differ_by_every_option() -> None:
    cases: list[tuple[str, dict[str, object], Tokens]] = [
        *((name, options, BYTES) for name, options in POLICIES),
        ("summarize", {}, BYTES),
        ("summarize", {"max_tokens": 801}, BYTES),
        ("summarize", {}, Tokens("other", len)),
        ("concatenate", {"headings": False}, BYTES),
        ("concatenate", {"absent": "skip"}, BYTES),
        ("concatenate", {"max_tokens": 200}, BYTES),
        ("filter", {}, BYTES),
        ("filter", {"framed": True}, BYTES),
        ("filter", {"include": ["a"]}, BYTES),
        ("filter", {"exclude": ["a"]}, BYTES),
        ("filter", {"kinds": ["link"]}, BYTES),
        ("filter", {"then": "summarize"}, BYTES),
    ]
    seen = [make_policy(n, options, tokens=t).fingerprint_parts() for n, options, t in cases]
    assert len(set(seen)) == len(seen)
    assert all(list(parts) == sorted(parts) for parts in seen)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("summarize", {"max_tokens": 0}),
        ("summarize", {"max_tokens": True}),
        ("summarize", {"tokens": 3}),
        ("concatenate", {"absent": "maybe"}),
        ("concatenate", {"headings": 1}),
        ("concatenate", {"max_tokens": -1}),
        ("filter", {"kinds": ["folder"]}),
        ("filter", {"include": 3}),
        ("filter", {"match": [""]}),
        ("filter", {"include": [""]}),
        ("filter", {"framed": "yes"}),
        ("filter", {"then": "filter"}),
        ("filter", {"options": 3}),
        ("filter", {"then": "concatenate", "options": {"nope": 1}}),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(PolicyOptionsError):
        make_policy(name, options, tokens=BYTES)


def test_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(UnknownPolicyError) as caught:
        make_policy("shout", tokens=BYTES)
    assert "concatenate, filter, summarize" in caught.value.hint


def test_concatenate_shows_every_child() -> None:
    children = [
        ChildInput("a", "directory", "[folder] A\n"),
        ChildInput("b.py", "file", "[python] B\n"),
        ChildInput("c", "link", None),
    ]
    text = make_policy("concatenate", tokens=BYTES).synthesize(children)
    assert text == "## a/\n\n[folder] A\n\n## b.py\n\n[python] B\n\n## c (link)\n\n(no frame)\n"


@settings(derandomize=True, max_examples=80, deadline=None)
@given(children=CHILDREN, limit=st.integers(32, 300))
def test_concatenate_honours_its_limit(children: list[ChildInput], limit: int) -> None:
    policy = make_policy("concatenate", {"max_tokens": limit}, tokens=BYTES)
    text = policy.synthesize(children)
    assert BYTES.count(text) <= limit
    whole = make_policy("concatenate", tokens=BYTES).synthesize(children)
    assert text == whole or "left out: " in text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "a b.py c.py d"),
        ({"include": ["*.py"]}, "b.py c.py"),
        ({"exclude": ["b*", "[d]"]}, "a c.py"),
        ({"kinds": ["directory", "link"]}, "a d"),
        ({"framed": True}, "a b.py"),
        ({"include": ["?.PY"]}, ""),
    ],
)
def test_filter_selects(options: dict[str, object], expected: str) -> None:
    children = [
        ChildInput("a", "directory", "A"),
        ChildInput("b.py", "file", "B"),
        ChildInput("c.py", "file", None),
        ChildInput("d", "link", None),
    ]
    policy = make_policy("filter", options, tokens=BYTES)
    kept = policy.select(children)  # type: ignore[attr-defined]  # Filter's own method
    assert " ".join(child.name for child in kept) == expected
    if not expected:
        assert policy.synthesize(children) == "[folder] nothing selected\n"
