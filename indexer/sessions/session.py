"""A session: plans that become records, records that become state, and everything read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from indexer.compiler import Plugins
from indexer.core.clock import Clock, SystemClock
from indexer.core.tokens import TiktokenCounter, TokenCounter
from indexer.errors import UncheckedError
from indexer.sessions import keeping
from indexer.sessions import operations as ops
from indexer.sessions.addresses import all_cycles, expand, reference, view_at, view_cycle
from indexer.sessions.apply import apply, open_data, open_state
from indexer.sessions.budget import TokenBudget
from indexer.sessions.chat_export import Chat, chat_of
from indexer.sessions.compile import (
    Compiled,
    CompileOptions,
    Moment,
    compile_blocks,
    prefix_length,
)
from indexer.sessions.context import all_fenced
from indexer.sessions.diff import Diff, Moved, diff_views, infer_moves
from indexer.sessions.documents import document_bytes, exported_bytes, snapshot_document
from indexer.sessions.effective import Effective, effective_blocks
from indexer.sessions.history import Delta
from indexer.sessions.lifecycle import PrunePolicy
from indexer.sessions.node import text, whole
from indexer.sessions.operations import Attempt
from indexer.sessions.plan import Note, Placement, plan_append, plan_edit, plan_replace
from indexer.sessions.rangediff import SelectOptions, Stop, range_diff
from indexer.sessions.records import (
    CommitRecord,
    LogCorruptError,
    OpRecord,
    Record,
    record_from_json,
)
from indexer.sessions.render import provider_thread, thread_bytes
from indexer.sessions.selector import Between, SelectorError
from indexer.sessions.selector_eval import evaluate
from indexer.sessions.selector_parser import parse_selector
from indexer.sessions.sent import (
    THREAD,
    Sending,
    SentError,
    came_with,
    check_sent,
    sent_bytes,
    sent_data,
)
from indexer.sessions.state import TICK_NS, Seal, State
from indexer.sessions.stored_records import RecordList
from indexer.sessions.view import View

Budgeted = Callable[[int, int], None]


class StalePlanError(UncheckedError):
    """A plan was made from a state that is no longer the session's."""

    code = "E_PLAN_STALE"


@dataclass(frozen=True, slots=True)
class Plan:
    """A record that passed every check and awaits being stored and applied."""

    record: Record
    warnings: tuple[str, ...] = ()

    def behind(self, others: int) -> Plan:
        """The plan for a place behind so many other records that are planned together with it."""
        record = self.record
        moved = replace(record, seq=record.seq + others, at_ns=record.at_ns + others * TICK_NS)
        return Plan(moved, self.warnings)


class Session:
    """One conversation. Not for use by several threads at once; plans change nothing."""

    def __init__(
        self,
        state: State,
        *,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        on_budget: Budgeted | None = None,
    ) -> None:
        self.state = state
        self._clock = clock if clock is not None else SystemClock()
        self.counter = counter if counter is not None else TiktokenCounter()
        self._on_budget = on_budget
        # What an import had to leave out or put right.
        self.warnings: tuple[str, ...] = ()
        self.author: str | None = None
        """In whose name the next records are planned."""

    @classmethod
    def new(
        cls,
        name: str,
        *,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        budget: TokenBudget | None = None,
        prune: PrunePolicy | None = None,
        document: Mapping[str, Any] | None = None,
        author: str | None = None,
    ) -> Session:
        """A session that begins with an empty tree, or with that of a complete document."""
        limit = budget if budget is not None else TokenBudget()
        now = (clock if clock is not None else SystemClock()).now_ns() // 1000 * 1000
        data = open_data(text("name", name), limit, prune, document)
        state = open_state(OpRecord(0, now, ops.OPEN, data, author))
        return cls(state, clock=clock, counter=counter, on_budget=limit.callback)

    @classmethod
    def replay(
        cls,
        records: Iterable[Record | Mapping[str, Any]],
        *,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        on_budget: Budgeted | None = None,
        verify: bool = True,
    ) -> Session:
        """The session that a log describes; `verify` refuses a log that contradicts itself."""
        state = replay_state(records, verify=verify)
        return cls(state, clock=clock, counter=counter, on_budget=on_budget)

    @property
    def name(self) -> str:
        """The name the session was opened under, which its own ids are made from."""
        return self.state.name

    @property
    def records(self) -> Sequence[Record]:
        """The log."""
        return tuple(self.state.records)

    @property
    def cycle(self) -> int:
        """The cycle of the last snapshot."""
        return self.state.last_cycle

    @property
    def head(self) -> str | None:
        """The newest commit of the chain."""
        return self.state.log.head

    @property
    def seals(self) -> Sequence[Seal]:
        """The commits of cycles, oldest first."""
        return tuple(self.state.seals)

    def plan_append(
        self, content: Mapping[str, Any], where: Placement | None = None, note: Note | None = None
    ) -> Plan:
        """Plan a new block."""
        record = plan_append(
            self.state, content, self.now(), self.counter, where or Placement(), note or Note()
        )
        return self._plan(record, self._budgeted(record))

    def plan_edit(
        self,
        target: str,
        content: Mapping[str, Any],
        where: Placement | None = None,
        note: Note | None = None,
    ) -> Plan:
        """Plan an edit of a block, named by commit hash or node id."""
        record = plan_edit(
            self.state,
            target,
            content,
            self.now(),
            self.counter,
            where or Placement(),
            note or Note(),
        )
        return self._plan(record, self._budgeted(record))

    def plan_replace(
        self, target: str, content: Mapping[str, Any], note: Note | None = None
    ) -> Plan:
        """Plan another content for a block that is live, in its place."""
        record = plan_replace(self.state, target, content, self.now(), self.counter, note or Note())
        return self._plan(record, self._budgeted(record))

    def plan_set(self, node_id: str, changes: Mapping[str, Any]) -> Plan:
        """Plan another ttl, priority or other attributes for a node that is live.

        A ttl counts from the cycle at work, as that of a block that is appended now.
        """
        changes, node = dict(changes), self.state.work().node(node_id)
        if node is not None and changes.get("ttl") is not None:
            ttl = whole("ttl", changes["ttl"], least=0)
            changes["ttl"] = self.state.working_cycle - node.cycle + ttl
        return self._plan(ops.plan_set(self.state, node_id, changes, self.now()))

    def plan_naming(self, op: str, **data: str) -> Plan:
        """Plan to rename the session, delete it or bring it back."""
        return self._plan(keeping.plan_naming(self.state, op, data, self.now()))

    def plan_group(self, where: Placement, *, removable: bool = True) -> Plan:
        """Plan an empty container."""
        return self._plan(ops.plan_group(self.state, where, removable, self.now()))

    def plan_move(self, node_id: str, parent: str, offset: int | None = None) -> Plan:
        """Plan to hang a node elsewhere."""
        return self._plan(ops.plan_move(self.state, node_id, parent, offset, self.now()))

    def plan_remove(self, node_id: str) -> Plan:
        """Plan to take a node out."""
        return self._plan(ops.plan_remove(self.state, node_id, self.now()))

    def plan_commit(self) -> Plan:
        """Plan to seal the cycle."""
        return self._plan(ops.plan_seal(self.state, self.now()))

    def plan_annotate(self, target: str, priority: str, reason: str | None = None) -> Plan:
        """Plan to pin, skip or free a commit."""
        return self._plan(ops.plan_annotate(self.state, target, priority, reason, self.now()))

    def plan_attempt(
        self,
        attempt: Attempt,
        sending: Sending | None = None,
        plugins: Plugins | None = None,
        before: str | None = None,
    ) -> Plan:
        """Plan to record a provider call, with what the work in progress gives to send.

        An attempt that is recorded late names the block `before` which it was sent.
        """
        sent = None
        if attempt.attempt_id not in self.state.log.attempts:
            how = sending if sending is not None else Sending()
            state, records = self.state, self.state.next_seq
            if before is not None:
                records = came_with(self.state.records, before)
                state = replay_state(self.state.records.first(records), verify=False)
            sent = sent_data(_sent(state, how, plugins), how, records)
        return self._plan(ops.plan_attempt(self.state, attempt, self.now(), sent))

    def plan_budget(self, budget: TokenBudget) -> Plan:
        """Plan to give the session another budget."""
        return self._plan(ops.plan_budget(self.state, budget, self.now()))

    def apply(self, plan: Plan | Record, *, verify: bool = False) -> Delta:
        """Carry out a plan, and tell which stored versions it changed."""
        record = plan.record if isinstance(plan, Plan) else plan
        if record.seq != self.state.next_seq:
            raise StalePlanError("the session has moved on since this was planned")
        return apply(self.state, record, verify=verify)

    def take_delta(self) -> Delta:
        """Stored versions that changed since the last call or `apply`."""
        return self.state.history.take_delta()

    def append(
        self, content: Mapping[str, Any], where: Placement | None = None, note: Note | None = None
    ) -> CommitRecord:
        """Add a block at once."""
        return self._commit(self.plan_append(content, where, note))

    def edit(
        self,
        target: str,
        content: Mapping[str, Any],
        where: Placement | None = None,
        note: Note | None = None,
    ) -> CommitRecord:
        """Edit a block at once."""
        return self._commit(self.plan_edit(target, content, where, note))

    def replace(
        self, target: str, content: Mapping[str, Any], note: Note | None = None
    ) -> CommitRecord:
        """Give a block that is live another content at once."""
        return self._commit(self.plan_replace(target, content, note))

    def set(self, node_id: str, **changes: Any) -> None:
        """Give a node that is live another ttl, priority or other attributes at once."""
        self.apply(self.plan_set(node_id, changes))

    def shared(self, at: str | None = None) -> RecordList:
        """The log up to a snapshot, else the last: what a branch that leaves there shares."""
        length = keeping.shared_length(self.state, view_cycle(self.state, at))
        return self.state.records.first(length)

    def fork(self, name: str, at: str | None = None) -> Session:
        """A session of its own that shares this one's log up to a snapshot, else the last."""
        state = replay_state(self.shared(at), verify=False)
        other = Session(state, clock=self._clock, counter=self.counter, on_budget=self._on_budget)
        other.branch_off(self.name, name, self.author)
        return other

    def branch_off(self, of: str, name: str, author: str | None = None) -> None:
        """Become a session of its own at once."""
        record = keeping.plan_fork(self.state, of, name, self.now())
        self.apply(replace(record, author=author))

    def commit(self) -> int:
        """Seal the cycle at once, and tell its number."""
        self.apply(self.plan_commit())
        return self.cycle

    def annotate(self, target: str, priority: str, reason: str | None = None) -> None:
        """Pin, skip or free a commit at once."""
        self.apply(self.plan_annotate(target, priority, reason))

    def set_budget(self, budget: TokenBudget) -> None:
        """Give the session another budget at once."""
        self.apply(self.plan_budget(budget))
        self._on_budget = budget.callback

    @property
    def tokens(self) -> int:
        """The tokens of what is live, which a budget is about."""
        return self.state.tokens_now.total

    def view(self, address: str | None = None) -> View:
        """The tree at an address; without one, as of the last commit."""
        return view_at(self.state, address)

    def select(
        self, selector: str, options: SelectOptions | None = None
    ) -> list[str] | dict[str, Any]:
        """Ids that a selector finds, or for a range of snapshots what changed among them."""
        parsed = parse_selector(selector)
        address = parsed.address
        if isinstance(address, Between):
            expanded = expand(self.state, address)
            stops = [
                Stop(reference(ref, cycle), self.state.at(cycle))
                for ref, cycle in zip(expanded.refs, expanded.cycles, strict=True)
            ]
            return range_diff(parsed, stops, expanded.warnings, options or SelectOptions())
        if address is None or address.kind != "*":
            return evaluate(parsed, view_at(self.state, address))
        found: dict[str, None] = {}
        for cycle in all_cycles(self.state):
            found.update(dict.fromkeys(evaluate(parsed, self.state.at(cycle))))
        return list(found)

    def diff(self, older: str, newer: str, selector: str | None = None) -> Diff:
        """What differs between two snapshots, through a selector where one is given."""
        chosen = parse_selector(selector) if selector is not None else None
        if chosen is not None and chosen.address is not None:
            raise SelectorError("the snapshots of a diff are named apart from its selector", 0)
        return diff_views(self.view(older), self.view(newer), chosen)

    def moves(self, older: str, newer: str, selector: str | None = None) -> list[Moved]:
        """Blocks that went and came back elsewhere, as far as their content tells."""
        difference = self.diff(older, newer, selector)
        return infer_moves(self.view(older), self.view(newer), difference)

    def thread(self, address: str | None = None) -> list[dict[str, Any]]:
        """The provider thread."""
        return provider_thread(self.view(address))

    def render(self, address: str | None = None) -> bytes:
        """The provider thread's bytes."""
        return thread_bytes(self.view(address))

    def chat(self, form: str) -> Chat:
        """The conversation as a provider's message list, edits substituted, context fenced."""
        return chat_of(all_fenced(self.effective()), form)

    def sent(self, attempt_id: str) -> Callable[[Plugins | None], bytes]:
        """What an attempt sent, byte for byte; the returned step is slow and may be taken later."""
        told = self.state.log.attempts.get(attempt_id)
        if told is None:
            raise SentError(f"there is no attempt {attempt_id!r} in this session")
        if "sent" not in told:
            raise SentError(f"attempt {attempt_id!r} was recorded without what it sent")
        kept = told["sent"]
        past = self.state.records.first(kept["records"])

        def again(plugins: Plugins | None = None) -> bytes:
            then = replay_state(past, verify=False)
            return check_sent(_sent(then, Sending.from_json(kept), plugins), kept, attempt_id)

        return again

    def document(self, address: str | None = None) -> dict[str, Any]:
        """A snapshot as a document."""
        return snapshot_document(self.view(address))

    def export_snapshot(self, address: str | None = None) -> bytes:
        """A snapshot's bytes."""
        return document_bytes(self.document(address))

    def export(self) -> bytes:
        """The whole session: its last snapshot, and the log it can be replayed from."""
        return exported_bytes(self.document(), self.state.records)

    def effective(
        self, *, as_of: Moment | None = None, up_to: str | None = None
    ) -> list[Effective]:
        """The blocks a reader gets, edits and annotations resolved, now or at a moment."""
        return self.reading(as_of=as_of, up_to=up_to)()

    def block(self, node_id: str) -> Effective | None:
        """One block of the working tree as it reads now; an edit by its own content."""
        state = self.state
        node, commit = state.work().node(node_id), state.log.of_node(node_id)
        if node is None or commit is None:
            return None
        shown = state.log.shown(commit)
        return Effective(
            node, commit, state.log.content(shown), shown is not commit, state.pinned(node_id)
        )

    def reading(
        self, *, as_of: Moment | None = None, up_to: str | None = None
    ) -> Callable[[], list[Effective]]:
        """Like `effective`, in two steps: the returned one is slow and sees nothing added since."""
        state, length = self.state, prefix_length(self.state, as_of, up_to)
        if length == len(state.records):
            present = list(effective_blocks(state, state.work(), state))
            return lambda: present
        past = state.records.first(length)

        def replayed() -> list[Effective]:
            if not length:
                return []
            then = replay_state(past, verify=False)
            # A moment in time has its own annotations; a point in the chain is read with today's.
            notes = then if as_of is not None else state
            return list(effective_blocks(then, then.work(), notes))

        return replayed

    def compile(
        self,
        options: CompileOptions | None = None,
        *,
        as_of: Moment | None = None,
        up_to: str | None = None,
    ) -> Compiled:
        """The session as messages for a model."""
        found = self.effective(as_of=as_of, up_to=up_to)
        return compile_blocks(found, options or CompileOptions(), self.counter)

    def now(self) -> int:
        """The time the next record gets."""
        return self.state.next_ns(self._clock.now_ns())

    def _plan(self, record: Record, warnings: tuple[str, ...] = ()) -> Plan:
        return Plan(replace(record, author=self.author), warnings)

    def _budgeted(self, record: CommitRecord) -> tuple[str, ...]:
        budget = self.state.budget
        limit = TokenBudget(budget.max_tokens, budget.action, self._on_budget)
        warning = limit.check(self._tokens_with(record))
        return () if warning is None else (warning,)

    def _tokens_with(self, record: CommitRecord) -> int:
        """The tokens of what is live once this record is applied."""
        now = self.state.tokens_now
        return now.total + record.token_count - now.replaced_by(record)

    def _commit(self, plan: Plan) -> CommitRecord:
        self.apply(plan)
        assert isinstance(plan.record, CommitRecord)
        return plan.record


def _sent(state: State, sending: Sending, plugins: Plugins | None) -> bytes:
    """What the work in progress of a state is sent as."""
    if sending.form == THREAD:
        return thread_bytes(state.work())
    return sent_bytes(list(effective_blocks(state, state.work(), state)), sending, plugins)


def replay_state(records: Iterable[Record | Mapping[str, Any]], *, verify: bool = True) -> State:
    """The state that a log describes."""
    state: State | None = None
    for item in records:
        record = record_from_json(item) if isinstance(item, Mapping) else item
        if state is None:
            state = open_state(record)
        else:
            apply(state, record, verify=verify)
    if state is None:
        raise LogCorruptError(0, "a log has at least the record that opens the session")
    return state
