"""Which snapshots an address names: one, all, or a range from the newest to the oldest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from indexer.sessions.history import HistoryView
from indexer.sessions.selector import NOW, Address, At, Between
from indexer.sessions.selector_parser import parse_address
from indexer.sessions.state import SnapshotUnknownError, State


@dataclass(frozen=True, slots=True)
class Expanded:
    """The snapshots of a range, newest first, with the addresses they were asked by."""

    refs: tuple[At, ...]
    cycles: tuple[int, ...]
    warnings: tuple[str, ...]


def view_at(state: State, address: Address | str | None) -> HistoryView:
    """The one tree an address names; without an address the last commit."""
    if isinstance(address, str):
        address = parse_address(address)
    if address is None:
        address = NOW
    if isinstance(address, Between) or address.kind == "*":
        raise SnapshotUnknownError("one snapshot is expected here, not several")
    if address.kind == "w":
        return state.work()
    return state.at(_cycle(state, address))


def view_cycle(state: State, address: str | None) -> int | None:
    """The cycle of the one snapshot an address names; None for the work in progress."""
    cycle = view_at(state, address).cycle
    return None if cycle == state.working_cycle else cycle


def all_cycles(state: State) -> range:
    """Cycles of all snapshots, newest first."""
    return range(state.last_cycle, state.first_cycle - 1, -1)


def expand(state: State, between: Between) -> Expanded:
    """The snapshots within a range; ends that lie beyond the history are cut off and told.

    The empty tree before the first commit is no snapshot, but where a range names it, it begins
    with it.
    """
    ends = sorted((_cycle(state, between.start), _cycle(state, between.end)))
    named = ends[0] >= state.base_cycle
    low = ends[0] if named else state.first_cycle
    high = min(ends[1], state.last_cycle)
    cycles = tuple(range(high, low - 1, -1))
    kind = between.start.kind
    offset = state.last_cycle if kind == "t" else 0
    refs = tuple(At(kind, cycle - offset) for cycle in cycles)
    warnings: tuple[str, ...] = ()
    if ends[0] < low or ends[1] > high:
        known = f"@c{state.first_cycle} to @c{state.last_cycle}" if cycles else "none of them"
        warnings = (f"the range goes beyond the history, which has {known}",)
    return Expanded(refs, cycles, warnings)


def reference(ref: At, cycle: int) -> dict[str, Any]:
    """A snapshot as a range result names it."""
    return {"kind": ref.kind, "value": ref.value, "label": str(ref), "cycle": cycle}


def _cycle(state: State, at: At) -> int:
    return state.last_cycle + at.value if at.kind == "t" else at.value
