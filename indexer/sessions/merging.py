"""Merging a branch: what it did since it left is done again here, turn by turn, in its order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from indexer.core.canonical import canonical_json
from indexer.errors import UsageError
from indexer.sessions import operations as ops
from indexer.sessions.budget import BudgetExceededError
from indexer.sessions.keeping import MERGE, identity
from indexer.sessions.node import AH, SYS, Node
from indexer.sessions.plan import Note, Placement
from indexer.sessions.records import EDIT, CommitRecord, OpRecord, Placed, Record
from indexer.sessions.session import Session
from indexer.sessions.view import core_of

_TWICE: Final = "it was changed here and there; what the branch says is later"


class MergeError(UsageError):
    """Two sessions that cannot be merged as they are."""

    code = "E_MERGE_INVALID"


@dataclass(slots=True)
class Merged:
    """What a merge did, and what it could not do or had to decide."""

    turns: int = 0
    left: int = 0
    """Records of the branch that belong to none of its turns: attempts, and what is not sealed."""
    conflicts: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def recorded(cls, record: Record) -> Merged:
        """What the record of a merge says of it."""
        assert isinstance(record, OpRecord)
        return cls(record.data["turns"], record.data["left"], list(record.data["conflicts"]))


def merge(here: Session, branch: Session, name: str) -> Merged:
    """Append the sealed turns of a branch that are not here yet, and record that.

    What both sides changed is told, and the branch's word is the later one.
    """
    return _Merge(here, branch, name).run()


class _Merge:
    """One merge as it goes on."""

    def __init__(self, here: Session, branch: Session, name: str) -> None:
        self.here = here
        self.branch = branch
        self.name = name
        self.merged = Merged()
        # For ids and commits of the branch that are others here, what they are here.
        self.ids: dict[str, str] = {}
        self.commits: dict[str, str] = {}
        self.open_cores: list[str] = []
        ours = [record.to_json() for record in here.records]
        theirs = [record.to_json() for record in branch.records]
        self.shared = _common(ours, theirs)
        if not self.shared:
            raise MergeError(
                f"{name!r} shares no beginning with this session",
                hint="what was forked from it, or from where it came from, can be merged",
            )
        self.source = _mark(theirs)
        # For the log of each session, its own included, how many records this session has of it.
        self.known = {_mark(ours): len(ours)}
        for record in _merges(here.records[self.shared :]):
            self.known[record.data["source"]] = record.data["through"]
            if record.data["source"] == self.source:
                self.ids.update(record.data["ids"])
                self.commits.update(record.data["commits"])
        self.begin = max(self.shared, self.known.get(self.source, 0))
        self.working = branch.state.base_cycle + 1
        self.working += sum(seal.seq < self.begin for seal in branch.seals)
        self.cycles: dict[str, int] = {}
        self.edited, self.annotated, self.set = _changed(here.records[self.shared :])

    def run(self) -> Merged:
        """Do again what the branch did, up to its last sealed turn."""
        here, records = self.here, self.branch.records
        end = max((seal.seq + 1 for seal in self.branch.seals), default=0)
        if end <= self.begin:
            raise MergeError(
                f"{self.name!r} has no sealed turn that is not here",
                hint="commit what it has in its active head first",
            )
        work = here.state.work()
        if work.children(work.region_id(AH)):
            raise MergeError(
                "the active head holds something", hint="commit it, or remove it, before merging"
            )
        first, author = here.state.next_seq, here.author
        skipped = self._known_already(records[self.begin : end])
        self.merged.left = len(records) - end
        for record in records[self.begin : end]:
            if record.seq not in skipped:
                here.author = record.author
                try:
                    self._do_again(record)
                except BudgetExceededError:
                    raise
                except UsageError as error:
                    self._conflict("left_out", _about(record), error.message)
                finally:
                    here.author = author
            self.working += isinstance(record, OpRecord) and record.op == ops.SEAL
        told: dict[str, Any] = {
            "of": self.name,
            "source": self.source,
            "shared": self.shared,
            "through": end,
            "first": first,
            "turns": self.merged.turns,
            "left": self.merged.left,
            "conflicts": self.merged.conflicts,
            "ids": self.ids,
            "commits": self.commits,
        }
        here.apply(OpRecord(here.state.next_seq, here.now(), MERGE, told, author))
        return self.merged

    def _known_already(self, records: Sequence[Record]) -> set[int]:
        """The numbers of what the branch merged from here, or from where this has it too."""
        found: set[int] = set()
        for record in _merges(records):
            data = record.data
            if self.known.get(data["source"], -1) >= data["through"]:
                found.update(range(data["first"], record.seq + 1))
                self.ids.update({there: here for here, there in data["ids"].items()})
                self.commits.update({there: here for here, there in data["commits"].items()})
        return found

    def _conflict(self, kind: str, node_id: str, message: str) -> None:
        self.merged.conflicts.append({"kind": kind, "id": node_id, "message": message})

    def _id(self, node_id: str) -> str:
        return self.ids.get(node_id, node_id)

    def _commit(self, commit: str) -> str:
        return self.commits.get(commit, commit)

    def _do_again(self, record: Record) -> None:
        """Do here what a record of the branch did there."""
        if isinstance(record, OpRecord):
            redo = {
                ops.GROUP: self._group,
                ops.MOVE: self._move,
                ops.REMOVE: self._remove,
                ops.SET: self._set,
                ops.ANNOTATE: self._annotate,
                ops.SEAL: self._seal,
            }.get(record.op)
            if redo is not None:
                redo(record)
            self.merged.left += record.op == ops.ATTEMPT
            return
        content = self.branch.state.log.content(record)
        note = Note(record.message, record.metadata)
        if record.operation != EDIT:
            placed = record.placed[-1]
            self.open_cores += [core.node.id for core in record.placed[:-1]]
            made = self.here.append(content, self._where(placed), note)
            self._came(placed.node, made.node_id)
        elif record.placed:
            node = record.placed[-1].node
            where = Placement(ttl=node.ttl, priority=node.priority, id=self._free(node))
            made = self.here.edit(self._target(record), content, where, note)
            self._came(node, made.node_id)
        else:
            made = self.here.replace(self._target(record), content, note)
        self.commits[record.commit_hash] = made.commit_hash

    def _where(self, placed: Placed) -> Placement:
        """The place here of a block or group of the branch."""
        node, parent, region = placed.node, self._id(placed.parent), None
        for name in (SYS, AH):
            if placed.parent == self.branch.state.history.regions[name]:
                region = name
        if placed.parent in self.open_cores:
            region = AH
        work = self.here.state.work()
        references = [self._id(target) for target in node.references]
        kept = tuple(target for target in references if work.node(target) is not None)
        if len(kept) < len(references):
            self._conflict("reference_gone", node.id, "what it refers to is not here any more")
        return Placement(
            region=region,
            parent=parent if region is None else None,
            offset=node.offset,
            ttl=node.ttl,
            priority=node.priority,
            id=self._free(node),
            node_type=node.node_type,
            role=node.role,
            kind=node.kind,
            references=kept,
            attributes=node.attributes,
            provenance=node.provenance,
        )

    def _free(self, node: Node) -> str | None:
        """The id of a node, None where it is taken here."""
        return None if self.here.state.history.knows(node.id) else node.id

    def _came(self, node: Node, here: str) -> None:
        """Note under which id a node of the branch stands here."""
        self.cycles[node.id] = self.working
        if node.id != here:
            self.ids[node.id] = here
            self._conflict("renamed", node.id, f"its id is taken here, where it is {here}")

    def _target(self, record: CommitRecord) -> str:
        """The commit here that an edit of the branch is of; told where it was edited here too."""
        assert record.reply_to is not None
        if record.reply_to in self.edited:
            self._conflict("edited", self.here.state.log.node_of(record.reply_to), _TWICE)
        return self._commit(record.reply_to)

    def _annotate(self, record: OpRecord) -> None:
        target, said = record.data["target"], record.data["priority"]
        if self.annotated.get(target, said) != said:
            self._conflict("annotated", self.here.state.log.node_of(target), _TWICE)
        self.here.annotate(self._commit(target), said, record.data.get("reason"))

    def _set(self, record: OpRecord) -> None:
        changes = dict(record.data)
        there = changes.pop("id")
        node = self.here.state.work().node(self._id(there))
        if changes.get("ttl") is not None and node is not None:
            # A header counts from the cycle of its node, what is asked for from the one at work.
            changes["ttl"] -= self.working - self.cycles.get(there, node.cycle)
        if there in self.set:
            self._conflict("set", there, _TWICE)
        self.here.set(self._id(there), **changes)

    def _group(self, record: OpRecord) -> None:
        placed = Placed.from_json(record.data)
        where = self._where(placed)
        if where.region is not None:
            where = replace(where, parent=self.here.state.history.regions[where.region])
        plan = self.here.plan_group(where, removable=placed.node.removable)
        self.here.apply(plan)
        assert isinstance(plan.record, OpRecord)
        self._came(placed.node, plan.record.data["node"]["id"])

    def _move(self, record: OpRecord) -> None:
        data = record.data
        plan = self.here.plan_move(self._id(data["id"]), self._id(data["parent"]), data["offset"])
        self.here.apply(plan)
        assert isinstance(plan.record, OpRecord)
        again = {item["was"]: item["node"]["id"] for item in plan.record.data.get("again", ())}
        for item in data.get("again", ()):
            was = self._id(item["was"])
            self.ids[item["node"]["id"]] = again.get(was, was)
            self.cycles[item["node"]["id"]] = self.working

    def _remove(self, record: OpRecord) -> None:
        self.here.apply(self.here.plan_remove(self._id(record.data["id"])))

    def _seal(self, record: OpRecord) -> None:
        self.here.commit()
        self.merged.turns += 1
        turn = self.here.seals[-1].turn
        self.ids[record.data["turn"]["node"]["id"]] = turn
        core = core_of(self.here.state.work(), turn)
        if "core" in record.data:
            self.open_cores.append(record.data["core"]["node"]["id"])
        if core is not None:
            self.ids.update(dict.fromkeys(self.open_cores, core.id))
        self.open_cores.clear()


def _common(ours: Sequence[Any], theirs: Sequence[Any]) -> int:
    """How many records two logs share."""
    pairs = zip(ours, theirs, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def _mark(records: Sequence[dict[str, Any]]) -> str:
    """What tells a session from all others, in one word."""
    return hashlib.sha256(canonical_json(dict(identity(records)))).hexdigest()


def _merges(records: Sequence[Record]) -> list[OpRecord]:
    return [r for r in records if isinstance(r, OpRecord) and r.op == MERGE]


def _about(record: Record) -> str:
    if isinstance(record, CommitRecord):
        return record.node_id
    return str(record.data.get("id", record.data.get("target", record.op)))


def _changed(records: Sequence[Record]) -> tuple[set[str], dict[str, str], set[str]]:
    """What was edited, annotated and set in some records."""
    edited, annotated, set_ = set[str](), dict[str, str](), set[str]()
    for record in records:
        if isinstance(record, CommitRecord):
            edited |= {record.reply_to} if record.reply_to is not None else set()
        elif record.op == ops.ANNOTATE:
            annotated[record.data["target"]] = record.data["priority"]
        elif record.op == ops.SET:
            set_.add(record.data["id"])
    return edited, annotated, set_
