"""What the sessions of a workspace are called, and which of them are deleted."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.errors import CorruptError, UsageError
from indexer.sessions.keeping import Named
from indexer.store.sessions import SessionName


class SessionUnknownError(UsageError):
    """No session has that name."""

    code = "E_SESSION_UNKNOWN"


class SessionTakenError(UsageError):
    """There is a session of that name already."""

    code = "E_SESSION_EXISTS"


class SessionNames:
    """Names of sessions by number and numbers by name; deleted ones have given theirs up."""

    def __init__(self, known: Iterable[SessionName]) -> None:
        self.live: dict[str, int] = {}
        self._named: dict[int, Named] = {}
        self._last = 0
        for sid, name, _, deleted_ns in known:
            self.put(sid, Named(name, deleted_ns))

    def new_sid(self) -> int:
        """A number that no session had, not even one that was purged a moment ago."""
        return self._last + 1

    def sid(self, name: str) -> int:
        """The session that has a name now."""
        sid = self.live.get(name)
        if sid is None:
            hint = "`merkle session list` names them all"
            if any(self.deleted(name)):
                hint = f"it was deleted; `merkle session restore {name}` brings it back"
            raise SessionUnknownError(f"there is no session {name!r}", hint=hint)
        return sid

    def check_free(self, name: str) -> None:
        """Refuse a name that a session has."""
        if name in self.live:
            raise SessionTakenError(
                f"there is a session {name!r} already", hint="choose another name"
            )

    def named(self, sid: int) -> Named:
        """What a session is called."""
        return self._named[sid]

    def deleted(self, name: str | None = None) -> list[int]:
        """The deleted sessions, or those that had a name, last deleted first."""
        found = [
            (named.deleted_ns, sid)
            for sid, named in self._named.items()
            if named.deleted_ns is not None and name in (None, named.name)
        ]
        return [sid for _, sid in sorted(found, reverse=True)]

    def put(self, sid: int, named: Named) -> None:
        """A session is called that from now on, or is not there any more."""
        before = self._named.pop(sid, None)
        if before is not None and self.live.get(before.name) == sid:
            del self.live[before.name]
        self._last = max(self._last, sid)
        if named.purged:
            return
        if named.deleted_ns is None:
            if named.name in self.live:
                raise CorruptError(
                    f"two sessions would be called {named.name!r}", hint="run `merkle repair`"
                )
            self.live[named.name] = sid
        self._named[sid] = named
