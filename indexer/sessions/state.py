"""Everything a session knows at one moment; made by applying records, and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from indexer.errors import UsageError
from indexer.sessions.budget import TokenBudget
from indexer.sessions.content import PINNED
from indexer.sessions.history import History, HistoryView
from indexer.sessions.lifecycle import PrunePolicy
from indexer.sessions.live_tokens import LiveTokens
from indexer.sessions.liveness import Liveness
from indexer.sessions.log import Log
from indexer.sessions.node import iso_of
from indexer.sessions.stored_records import RecordList

# Records are a microsecond apart, so that each has an ISO time of its own, and the nodes that one
# record makes have times in between.
TICK_NS = 1000


class SnapshotUnknownError(UsageError):
    """No snapshot has that address."""

    code = "E_SNAPSHOT_UNKNOWN"


@dataclass(frozen=True, slots=True)
class Seal:
    """One commit of a cycle: when, and which turn it made."""

    cycle: int
    at_ns: int
    turn: str
    seq: int

    @property
    def at_iso(self) -> str:
        """The time of the commit in ISO 8601."""
        return iso_of(self.at_ns)


@dataclass(slots=True)
class State:
    """The tree's history, the log and the counters that the next record needs."""

    name: str
    base_cycle: int
    imported: bool
    version: int
    """The version of the rules by which contents are hashed and shown, from the log's `format`."""
    budget: TokenBudget
    policy: PrunePolicy | None
    history: History
    live: Liveness = field(default_factory=Liveness)
    log: Log = field(default_factory=Log)
    tokens_now: LiveTokens = field(init=False)
    seals: list[Seal] = field(default_factory=list)
    records: RecordList = field(default_factory=RecordList)
    creation_index: int = 0
    last_ns: int = 0
    deleted: bool = False

    def __post_init__(self) -> None:
        self.tokens_now = LiveTokens(self.log)

    @property
    def working_cycle(self) -> int:
        """The cycle in progress."""
        return self.history.working

    @property
    def last_cycle(self) -> int:
        """The cycle of the newest snapshot, or of the empty tree before the first."""
        return self.history.working - 1

    @property
    def first_cycle(self) -> int:
        """The cycle of the oldest snapshot; an imported tree is one, the empty tree is none."""
        return self.base_cycle if self.imported else self.base_cycle + 1

    @property
    def next_seq(self) -> int:
        """The number of the next record."""
        return len(self.records)

    def work(self) -> HistoryView:
        """The working tree, active head included."""
        return self.history.view(self.working_cycle)

    def at(self, cycle: int) -> HistoryView:
        """The snapshot of a cycle, or an error; the tree before the first commit is empty."""
        if not self.base_cycle <= cycle <= self.last_cycle:
            raise SnapshotUnknownError(
                f"there is no snapshot of cycle {cycle}",
                hint=f"cycles {self.base_cycle} to {self.last_cycle} can be named",
            )
        return self.history.view(cycle)

    def seal_seq(self, cycle: int) -> int:
        """The number of the record that sealed a cycle."""
        return self.seals[cycle - self.base_cycle - 1].seq

    def next_ns(self, now_ns: int) -> int:
        """The time of the next record: now, yet always later than the one before."""
        return max(now_ns // TICK_NS, self.last_ns // TICK_NS + 1) * TICK_NS

    def pinned(self, node_id: str) -> bool:
        """Whether a block is pinned."""
        commit = self.log.of_node(node_id)
        return commit is not None and self.log.priority(commit) == PINNED

    def tokens(self, node_id: str) -> int:
        """The tokens of a block."""
        commit = self.log.of_node(node_id)
        return self.log.shown(commit).token_count if commit is not None else 0
