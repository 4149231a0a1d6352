"""tract-engine-layer.md: hashing, tokens, commits, edits and messages, statement by statement."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from indexer import Session, canonical_json, commit_hash, content_hash
from indexer.core.clock import ManualClock
from indexer.core.tokens import NullTokenCounter, TiktokenCounter
from indexer.sessions import CompileOptions, Placement, TokenBudget, make_content
from indexer.sessions.compile import CompileError
from indexer.sessions.content import role_of, text_of
from indexer.sessions.log import CommitNotFoundError, EditTargetError
from tests.core import test_canonical as canonical
from tests.core import test_tokens as tokens
from tests.sessions import conftest
from tests.sessions import test_session_budget as budget
from tests.sessions import test_session_compile as compiling
from tests.sessions import test_session_log as log
from tests.support.conformance import Specification
from tests.support.showing import Shows, run

GIVEN_OUT: Final = "docs/sessions.md: What is given out"


class Shown(NamedTuple):
    """A statement in its own words, cut short, what shows it, and the ruling that changes it."""

    text: str
    shows: Shows
    ruled: str | None = None


def _session() -> Session:
    return Session.new("s", clock=ManualClock(10**18))


def _said(text: str, role: str = "user", name: str | None = None) -> dict[str, Any]:
    return make_content("dialogue", text=text, role=role, name=name)


def _messages(session: Session, *options: Any, **moment: Any) -> list[tuple[str, str]]:
    return compiling.messages(session, *options, **moment)


def property_of_hashes() -> None:
    data = {"b": [1, 2.5, True, None, "é"], "a": {"z": 1, "y": 2}}
    assert content_hash(data) == content_hash(dict(reversed(data.items())))
    assert content_hash(data) != content_hash({**data, "a": {"z": 1}})


def identity_without_message_or_metadata(clock: ManualClock) -> None:
    log.test_message_and_metadata_take_no_part_in_the_hash(clock)
    fields = ("c" * 64, None, "dialogue", "append", "2026-01-01T00:00:00Z")
    assert commit_hash(*fields) == commit_hash(*fields, reply_to=None)


def everything_is_handed_in() -> None:
    session = Session.new("s", clock=ManualClock(10**18), counter=NullTokenCounter())
    assert session.append(_said("hello")).token_count == 0


def a_model_becomes_plain_json() -> None:
    record = _session().append(_said("hi"))
    assert record.content == {
        "content_type": "dialogue",
        "role": "user",
        "text": "hi",
        "name": None,
    }
    assert record.content_hash == content_hash(dict(record.content or {}))


def texts_of_all_types() -> None:
    log.test_texts_roles_and_kinds()
    counter = TiktokenCounter()
    session = Session.new("s", clock=ManualClock(10**18), counter=counter)
    content = make_content("tool_io", payload={"b": 1, "a": 2}, name="t")
    assert text_of(content) == '{"a": 2, "b": 1}'
    assert session.append(content).token_count == counter.count_text('{"a": 2, "b": 1}')


def parents(session: Session) -> None:
    log.test_the_chain_of_hashes(session)


def budget_sums() -> None:
    session = budget.small(5)
    session.append(_said("abc"))
    with pytest.raises(budget.BudgetExceededError) as told:
        session.append(_said("def"))
    assert (told.value.current_tokens, told.value.max_tokens) == (6, 5)
    budget.test_what_went_makes_room()


def budget_warns() -> None:
    session = budget.small(1, "warn")
    plan = session.plan_append(_said("hello"))
    assert "budget" in plan.warnings[0]
    session.apply(plan)
    assert len(session.state.log.commits) == 1


def budget_calls_back() -> None:
    calls: list[tuple[int, int]] = []
    limit = TokenBudget(1, "callback", lambda now, most: calls.append((now, most)))
    session = Session.new("s", clock=ManualClock(10**18), budget=limit)
    session.append(_said("This text definitely has more than 1 token"))
    assert len(calls) == 1
    assert calls[0][1] == 1 < calls[0][0]


def time_is_identity() -> None:
    session = _session()
    first, second = session.append(_said("same")), session.append(_said("same"))
    assert first.content_hash == second.content_hash
    assert first.commit_hash != second.commit_hash
    assert first.timestamp_iso != second.timestamp_iso


def edits_need_a_target() -> None:
    session = _session()
    with pytest.raises(EditTargetError):
        session.edit("", _said("x"))
    with pytest.raises(EditTargetError):
        session.edit("0" * 64, _said("x"))


def edits_are_not_edited() -> None:
    session = _session()
    first = session.append(_said("Hello"))
    edit = session.edit(first.commit_hash, _said("Hello edited"))
    with pytest.raises(EditTargetError, match="is an edit"):
        session.edit(edit.commit_hash, _said("Hello re-edited"))
    session.edit(first.commit_hash, _said("again"))
    assert _messages(session) == [("user", "again")]


def head_moves() -> None:
    session = _session()
    assert session.head is None
    record = session.append(_said("x"))
    assert session.head == record.commit_hash


def instructions_are_pinned() -> None:
    session = _session()
    law, talk = session.append(make_content("instruction", text="x")), session.append(_said("y"))
    assert session.state.log.priority(law) == "pinned"
    assert session.state.log.priority(talk) == "normal"
    for policy in ({"selection": {"max_turns": 0}}, {"collapse": {"target": 0}}):
        assert _messages(session, CompileOptions(policy=policy)) == [("system", "x")]


def a_commit_tells_all_of_itself() -> None:
    record = _session().append(_said("x"))
    for field in ("commit_hash", "content_hash", "content_type", "operation", "token_count"):
        assert getattr(record, field) not in (None, "")


def annotations() -> None:
    session = _session()
    with pytest.raises(CommitNotFoundError):
        session.annotate("0" * 64, "skip")
    first = session.append(_said("x"))
    session.annotate(first.commit_hash, "skip", "why")
    session.annotate(first.commit_hash, "pinned")
    said = [record.to_json() for record in session.records]
    said = [data for data in said if data.get("target") == first.commit_hash]
    kept = [(data["priority"], data.get("reason")) for data in said]
    assert kept == [("skip", "why"), ("pinned", None)]
    assert session.state.log.priority(first) == "pinned"


def moments_exclude_each_other() -> None:
    session = _session()
    first = session.append(_said("x"))
    with pytest.raises(CompileError):
        session.compile(as_of=1, up_to=first.commit_hash)


def the_order_is_that_of_time() -> None:
    session = _session()
    for text, role in (("1", "user"), ("2", "assistant"), ("3", "user")):
        session.append(_said(text, role))
    assert [text for _, text in _messages(session)] == ["1", "2", "3"]


def zones_do_not_matter(session: Session) -> None:
    compiling.test_moments_can_be_written_in_many_ways()
    compiling.test_as_of_the_time_of_a_commit_includes_it(session)


def names_are_of_dialogue(session: Session) -> None:
    compiling.test_names_are_passed_on(session)
    session.append(make_content("tool_io", payload={}, name="search"))
    assert session.compile().messages[-1].name == "search"


def roles_in_five_steps() -> None:
    assert role_of({"content_type": "dialogue", "role": "assistant"}, {"dialogue": "x"}) == "x"
    assert role_of({"content_type": "dialogue", "role": "assistant"}) == "assistant"
    assert role_of({"content_type": "tool_io"}) == "tool"
    assert role_of({"content_type": "instruction"}) == "system"
    assert role_of({"content_type": "unheard-of"}) == "assistant"


def tools_stay_apart(session: Session) -> None:
    compiling.test_neighbours_of_one_role_are_merged(session)
    fresh = _session()
    for direction in ("call", "result"):
        fresh.append(make_content("tool_io", payload={}, name="t", direction=direction))
    assert len(fresh.compile().messages) == 2


def an_append_is_new(session: Session) -> None:
    record = session.append(_said("x"))
    assert (record.operation, record.reply_to) == ("append", None)


def an_edit_keeps_the_place() -> None:
    session = _session()
    first = session.append(_said("Be helpful", "assistant"), Placement(id="a"))
    session.append(_said("Hi"))
    session.commit()
    session.edit(first.commit_hash, _said("Be concise", "assistant"))
    assert _messages(session) == [("assistant", "Be concise"), ("user", "Hi")]
    # Nothing is lost: what it said is still in the tree and in the log.
    assert [m["content"] for m in session.thread("@w")] == ["Be helpful", "Hi", "Be concise"]
    assert session.state.log.content(first)["text"] == "Be helpful"


def blobs(session: Session) -> None:
    log.test_each_content_is_stored_once(session)


SHOWN: Final[dict[str, Shown]] = {
    "Canonical JSON 1": Shown(
        "Keys are sorted alphabetically at every level.",
        canonical.test_keys_are_sorted_at_every_level_without_white_space,
    ),
    "Canonical JSON 2": Shown(
        "No white space: compact separators.",
        canonical.test_keys_are_sorted_at_every_level_without_white_space,
    ),
    "Canonical JSON 3": Shown(
        "Unicode is kept as it is; the output is UTF-8 bytes.",
        canonical.test_text_is_utf8_and_not_escaped,
    ),
    "Content Hash 1": Shown(
        "SHA-256 of the canonical JSON, 64 hex digits.",
        canonical.test_the_content_hash_is_sha256_of_the_canonical_json,
    ),
    "Content Hash 2": Shown(
        "The input is a plain dict.", canonical.test_what_json_cannot_carry_is_refused
    ),
    "Content Hash 3": Shown("Key order is irrelevant.", property_of_hashes),
    "Content Hash 4": Shown(
        "Deterministic for any JSON value.", canonical.test_the_spelling_survives_a_round_trip
    ),
    "Commit Hash 1": Shown(
        "Content hash, parent, type, operation and timestamp take part.",
        canonical.test_every_field_takes_part_in_the_commit_hash,
    ),
    "Commit Hash 2": Shown(
        "reply_to takes part only when it is not None.",
        canonical.test_no_reply_to_is_the_same_as_none,
    ),
    "Commit Hash 3": Shown(
        "Message, metadata, token count and repository take no part.",
        identity_without_message_or_metadata,
    ),
    "Commit Hash 4": Shown(
        "SHA-256 of the canonical JSON of these fields.",
        canonical.test_the_commit_hash_is_sha256_of_its_fields,
    ),
    "TiktokenCounter 1": Shown(
        "tiktoken is loaded when a counter is needed, not before.",
        tokens.test_importing_or_creating_a_counter_reads_no_table,
    ),
    "TiktokenCounter 2": Shown(
        "An encoding given by name is used.", tokens.test_an_encoding_by_name_wins_over_the_model
    ),
    "TiktokenCounter 3": Shown(
        "Otherwise that of the model; unknown models fall back to o200k_base.",
        tokens.test_the_encoding_follows_the_model_and_falls_back,
    ),
    "count_text": Shown(
        "The number of tokens; an empty text has none.",
        lambda: _equal(TiktokenCounter().count_text(""), 0),
    ),
    "count_messages 1": Shown(
        "3 a message, 1 for a name, 3 for the reply.",
        tokens.test_messages_cost_their_text_and_their_framing,
    ),
    "count_messages 2": Shown(
        "No messages cost nothing.", lambda: _equal(TiktokenCounter().count_messages([]), 0)
    ),
    "NullTokenCounter 1": Shown("It always counts 0.", tokens.test_the_null_counter_counts_nothing),
    "NullTokenCounter 2": Shown(
        "Both satisfy the TokenCounter protocol.", tokens.test_both_counters_are_token_counters
    ),
    "CommitEngine": Shown("All dependencies are injected.", everything_is_handed_in),
    "create_commit 1": Shown("The content becomes plain JSON.", a_model_becomes_plain_json),
    "create_commit 2": Shown("Its hash is that of the JSON.", a_model_becomes_plain_json),
    "create_commit 3": Shown("Tokens are those of its text, by type.", texts_of_all_types),
    "create_commit 4": Shown("Each content is stored once.", blobs),
    "create_commit 5": Shown("The parent is HEAD; a root has none.", parents),
    "create_commit 6": Shown(
        "The budget sums the new commit and what is there.", budget_sums, GIVEN_OUT
    ),
    "create_commit 6 reject": Shown(
        "REJECT raises with both counts.", budget.test_a_session_counts_tokens_by_default
    ),
    "create_commit 6 warn": Shown("WARN warns and goes on.", budget_warns),
    "create_commit 6 callback": Shown("CALLBACK calls with both counts.", budget_calls_back),
    "create_commit 7-8": Shown(
        "The timestamp takes part: equal contents get different commits.", time_is_identity
    ),
    "create_commit 9 target": Shown("An edit needs a target that exists.", edits_need_a_target),
    "create_commit 9 no edit of an edit": Shown(
        "The target is no edit; edit the original again.", edits_are_not_edited
    ),
    "create_commit 10-11": Shown("The commit is saved and HEAD moves to it.", head_moves),
    "create_commit 12": Shown(
        "Instructions are pinned by default, and never filtered out.", instructions_are_pinned
    ),
    "create_commit 13": Shown("The commit is given back.", a_commit_tells_all_of_itself),
    "annotate": Shown("The target must exist; annotations are appended.", annotations),
    "compile 1": Shown("as_of and up_to exclude each other.", moments_exclude_each_other),
    "compile 2": Shown(
        "Nothing compiles to no messages.", compiling.test_nothing_compiles_to_nothing
    ),
    "Step 1 order": Shown("From root to head, in order of time.", the_order_is_that_of_time),
    "Step 1 up_to": Shown(
        "up_to ends with that commit.", compiling.test_up_to_a_commit, "DESIGN §8.7"
    ),
    "Step 1 as_of": Shown("as_of keeps what is not later, in any zone.", zones_do_not_matter),
    "Step 2": Shown("Of several edits the latest wins.", compiling.test_the_latest_edit_wins),
    "Step 2 as_of": Shown(
        "Edits after as_of do not count.",
        compiling.test_as_of_resolves_edits_annotations_and_expiry,
        "DESIGN §8.7",
    ),
    "Step 3": Shown("The latest annotation decides, else the default of the type.", annotations),
    "Step 4 edits": Shown(
        "Edits are no messages of their own.", compiling.test_edits_take_the_place_of_their_target
    ),
    "Step 4 skip": Shown(
        "SKIP leaves a commit out.", compiling.test_skipped_blocks_are_left_out_until_they_are_not
    ),
    "Step 5-6 edited": Shown("' [edited]' is added on request.", compiling.test_edits_can_be_shown),
    "Step 5-6 name": Shown("A name is passed on.", names_are_of_dialogue, GIVEN_OUT),
    "Role mapping": Shown(
        "Override, own, tool, default of the type, assistant.", roles_in_five_steps
    ),
    "Aggregation 1": Shown(
        "Neighbours of one role are joined by a blank line.", tools_stay_apart, GIVEN_OUT
    ),
    "Aggregation 2": Shown(
        "Another role is a boundary.", compiling.test_neighbours_of_one_role_are_merged
    ),
    "Token count": Shown(
        "The count is of the messages, framing included.",
        compiling.test_tokens_of_messages_include_their_framing,
    ),
    "APPEND": Shown("New information at the head of the chain.", an_append_is_new),
    "EDIT": Shown("The content changes, the place stays.", an_edit_keeps_the_place),
}

statement = Specification(
    "tract-engine-layer.md", {place: one.text for place, one in SHOWN.items()}
)


def _equal(found: object, expected: object) -> None:
    assert found == expected


def _test_of(place: str, shown: Shown) -> Callable[..., None]:
    @statement(place, shown.ruled)
    def test(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.ERROR)
        run(shown.shows, request, conftest)

    return test


for _number, (_place, _shown) in enumerate(SHOWN.items()):
    globals()[f"test_{_number:02d}"] = _test_of(_place, _shown)


def test_hashes_are_the_same_for_equal_spellings() -> None:
    assert canonical_json({"z": 1, "a": "é"}) == '{"a":"é","z":1}'.encode()
