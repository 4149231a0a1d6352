"""Asking the team before computing, and giving it what was computed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from indexer.core.frames import MemoKey
from indexer.engine.documents import ExchangedDocument
from indexer.engine.settings import Settings
from indexer.shared.base import Entry, SharedError
from indexer.shared.client import Client, Membership
from indexer.shared.seal import TEAM_KEY
from indexer.store.database import Database
from indexer.store.frames import FrameBatch
from indexer.store.share_queue import ShareQueue

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache

PORTION: Final = 256
"""Keys taken at once to compute: few enough that several machines share the work."""

LONGEST_HOLD: Final = 3600.0
"""Seconds after which leases are renewed no more: a generator that hangs must not hold a team."""

POLL_SECONDS: Final = 0.5
PATIENCE_SERVED: Final = 0.25
"""How long a service waits for another machine before it does something else."""

PUSH: Final = 500
"""Results handed over in one conversation."""


def membership(settings: Settings) -> Membership | None:
    """How this workspace belongs to a team, if it does."""
    values = settings.values
    url = values["shared.url"]
    if not url:
        return None
    return Membership(
        url=str(url),
        namespace=str(values["shared.namespace"]),
        read_only=bool(values["shared.read_only"]),
        timeout=float(values["shared.timeout"] or 5),
        lease_seconds=float(values["shared.lease"] or 60),
        team_key=os.environ.get(TEAM_KEY) or None,
    )


def exchange(database: Database, heads: HeadCache, member: Membership) -> Exchange:
    """The dealings of a workspace with its team."""
    return Exchange(heads, ShareQueue(database), Client(member))


@dataclass(slots=True)
class Tally:
    """What passed between this workspace and the team."""

    fetched: int = 0
    computed: int = 0
    pushed: int = 0


Take = Callable[[Entry], None]
Compute = Callable[[list[MemoKey]], list[Entry]]
"""Computes some keys; the results of those that could be."""


class Exchange:
    """One workspace's dealings with its team, on the thread that writes."""

    def __init__(self, heads: HeadCache, queue: ShareQueue, client: Client) -> None:
        self.client = client
        self.tally = Tally()
        self._heads = heads
        self._queue = queue
        self._keeper = _LeaseKeeper(client.member, client.holder)
        self._given: set[MemoKey] = set()
        """Handed over, and in the queue still: they are taken out together."""
        self._refused_before = self._refused_noted = 0
        self._due: bool | None = None
        """Whether something waits to be handed over; None while nobody has looked."""

    @property
    def owes(self) -> bool:
        """Whether something waits to be handed over, as far as is known."""
        return bool(self._due)

    def close(self) -> None:
        """Let go of the store; leases that are still held run out."""
        self._keeper.close()
        self.client.close()

    def report(self) -> ExchangedDocument:
        """What passed since the last report, and what stood in the way."""
        tally, self.tally = self.tally, Tally()
        total = self.client.refused.total()
        refused, self._refused_before = total - self._refused_before, total
        problem = self.client.problem
        return {
            "fetched": tally.fetched,
            "computed": tally.computed,
            "pushed": tally.pushed,
            "refused": refused,
            "problem": None if problem is None else problem.message,
        }

    # -- before and after computing

    def compute_ours(
        self,
        wanted: Mapping[MemoKey, int],
        take: Take,
        compute: Compute,
        patience: float | None = None,
    ) -> set[MemoKey]:
        """Compute what is ours to compute of what the team lacks, and wait for the rest.

        Returns the keys that others are still computing when patience ran out. An outage at any
        moment means that all that is missing is computed here.
        """
        missing = dict(wanted)
        waited_since: float | None = None
        while missing:
            for portion in self._portions(list(missing)):
                for key in self._do_ours(portion, wanted, take, compute):
                    missing.pop(key)
            if not missing:
                break
            now = time.monotonic()
            waited_since = now if waited_since is None else waited_since
            left = POLL_SECONDS if patience is None else patience - (now - waited_since)
            if left <= 0:
                break
            self.wait(min(left, POLL_SECONDS))
            missing = self._taken(missing, take)
        return set(missing)

    def _taken(self, missing: dict[MemoKey, int], take: Take) -> dict[MemoKey, int]:
        """What is still missing after the team was asked, in one conversation."""
        if not missing:
            return missing
        try:
            found = self.client.get(missing)
        except SharedError:
            return missing
        for entry in found.values():
            take(entry)
        self.tally.fetched += len(found)
        return {key: least for key, least in missing.items() if key not in found}

    def _portions(self, keys: list[MemoKey]) -> Iterator[list[MemoKey]]:
        """The keys in portions; every machine begins with another one."""
        portions = [keys[at : at + PORTION] for at in range(0, len(keys), PORTION)]
        first = int(self.client.holder[:8], 16) % len(portions)
        yield from portions[first:] + portions[:first]

    def _do_ours(
        self, portion: list[MemoKey], wanted: Mapping[MemoKey, int], take: Take, compute: Compute
    ) -> list[MemoKey]:
        """Compute those of a portion that nobody else is computing; the keys that are done."""
        leased = self.lease(portion)
        granted = portion if leased is None else [key for key in portion if key in leased]
        try:
            mine = {key: wanted[key] for key in granted}
            if leased:
                # Somebody may have finished between the first look and the lease.
                mine = self._taken(mine, take)
            if mine:
                entries = compute(list(mine))
                self.tally.computed += len(entries)
                self._keep_and_give(entries)
        finally:
            if leased:
                self.let_go(leased)
        return granted

    def lease(self, portion: list[MemoKey]) -> set[MemoKey] | None:
        """The keys that are ours now; None where leases cannot be had, and all are."""
        if not self.client.may_write:
            return None
        try:
            leased = self.client.lease(portion)
        except SharedError:
            return None
        if leased:
            self._keeper.hold(leased)
        return leased

    # -- for what takes long: asked for now, answered some time

    def look_up(self, wanted: Mapping[MemoKey, int]) -> list[Entry]:
        """What the team has of some keys, in one conversation; nothing in an outage."""
        found: list[Entry] = []
        self._taken(dict(wanted), found.append)
        return found

    def peek(self, wanted: Mapping[MemoKey, int]) -> tuple[list[Entry], str | None]:
        """What the team has of some keys, only to be told of, or why it could not be asked."""
        try:
            return list(self.client.get(wanted).values()), None
        except SharedError as error:
            return [], error.message

    def let_go(self, keys: Iterable[MemoKey]) -> None:
        """Give leases back; all others are held on to."""
        gone = list(keys)
        self._keeper.drop(gone)
        self.client.release(gone)

    def give_stored(self, keys: Sequence[MemoKey]) -> None:
        """Hand over results that are stored here and noted as due."""
        self.tally.computed += len(keys)
        self._due = self._due or not self.client.member.read_only
        if keys and self.client.may_write:
            self._give(self.entries(keys))

    def wait(self, seconds: float) -> None:
        """Sleep until there may be something new, at most so long."""
        try:
            self.client.wait(seconds)
        except SharedError:
            # The next round computes what is missing.
            return

    # -- giving

    def _keep_and_give(self, entries: Sequence[Entry]) -> None:
        """Store results here, noted as due to be given, and then give them."""
        if not entries:
            return
        batch = FrameBatch()
        for entry in entries:
            batch.memo[entry.key] = (entry.generation, entry.content)
            batch.bodies[entry.content] = entry.body
        if not self.client.member.read_only:
            batch.due = [(entry.key, entry.generation) for entry in entries]
            self._due = True
        self._heads.add(batch)
        if self.client.may_write:
            self._give(entries)

    def _give(self, entries: Sequence[Entry]) -> bool:
        """Hand results over; False when that has to be done later."""
        try:
            self.tally.pushed += self.client.put(entries)
        except SharedError:
            return False
        self._given.update(entry.key for entry in entries)
        return True

    def catch_up(self) -> None:
        """Hand over what is due from earlier, as far as the team can be reached."""
        self.note_refused()
        if self._due is False:
            return
        self._queue.forget(self._given)
        self._given.clear()
        keys = list(self._queue.waiting())
        self._due = bool(keys)
        for at in range(0, len(keys), PUSH):
            group = keys[at : at + PUSH]
            if self.client.is_resting or not self.client.may_write:
                return
            # What was invalidated meanwhile can be given to nobody, and is no longer due.
            if not self._give_lacking(group):
                return
            self._queue.forget(group)
        self._given.clear()
        self._due = False

    def _give_lacking(self, keys: Sequence[MemoKey]) -> bool:
        """Hand over what the team does not have; False when that has to be done later."""
        try:
            lacking = self.client.lacking(self.entries(keys))
        except SharedError:
            return False
        return not lacking or self._give(lacking)

    def note_refused(self) -> None:
        """Remember here how many rows were not believed."""
        total = self.client.refused.total()
        if total > self._refused_noted:
            self._queue.add_refused(total - self._refused_noted)
            self._refused_noted = total

    def entries(self, keys: Iterable[MemoKey]) -> list[Entry]:
        """The results of some keys as they are known here, without what only a pack says."""
        unvouched = self._heads.store.unvouched()
        known = {key: self._heads.memo(key) for key in keys}
        bodies = self._heads.store.bodies(
            content for _, content in known.values() if content is not None
        )
        return [
            Entry(key, generation, content, bodies[content])
            for key, (generation, content) in known.items()
            if content is not None and content in bodies and (key, generation) not in unvouched
        ]


class _LeaseKeeper:
    """Renews leases while something is computed, however long that takes."""

    def __init__(self, member: Membership, holder: str) -> None:
        self._member = member
        self._holder = holder
        self._lock = threading.Lock()
        self._held: set[MemoKey] = set()
        """The leases of every run of this workspace: no run lets go of another's."""
        self._since = 0.0
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, keys: Iterable[MemoKey]) -> None:
        """From now on these leases are renewed."""
        with self._lock:
            self._held.update(keys)
        self._since = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
            self._thread.start()

    def drop(self, keys: Iterable[MemoKey]) -> None:
        """Renew these leases no more."""
        with self._lock:
            self._held.difference_update(keys)

    def close(self) -> None:
        """End the thread."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        # A connection of its own: the other one may be in use.
        client = Client(self._member)
        try:
            while not self._ending.wait(self._member.lease_seconds / 3):
                with self._lock:
                    held = sorted(self._held)
                if held and time.monotonic() - self._since < LONGEST_HOLD:
                    # A lease that runs out costs work done twice, and nothing else.
                    with contextlib.suppress(SharedError):
                        client.renew(held, self._holder)
        finally:
            client.close()
