"""A command line handed to the process that a service keeps ready (`cli/ready.py`).

Most of a short command's time is Python loading modules. Where a service runs, none but this one
and the interpreter's own are loaded: the line, the folder and the three streams go to a process
that has loaded everything already, which does what this one would have done, on the same streams.
Whatever does not fit is left to the ordinary way, before anything was done.
"""

from __future__ import annotations

# `_socket` is what `socket` is made of; the latter loads enumerations and selectors, and with
# them takes longer than all that is done here.
import _socket
import os
import sys

from indexer import __version__
from indexer.service.whose_socket import (
    FOLDER,
    is_our_socket,
    name_of_socket,
    nearest_workspace,
    ready_address,
)

ASKED = frozenset(
    (
        "callees", "callers", "compose", "definition", "diff", "explain", "get-frame", "get-head",
        "get-node", "help", "impact", "list-frames", "log", "ls", "note", "notes", "references",
        "replay", "scan", "search", "show", "sql", "status", "symbols",
    )
)  # fmt: skip
"""Commands that ask the service and write no file: what is read and written by name here must not
be read and written by another process, which may be in another container."""

ENVIRONMENT = (
    "CI", "COLORTERM", "COLUMNS", "FORCE_COLOR", "HOME", "LANG", "LINES", "LNAME", "LOGNAME",
    "NO_COLOR", "TERM", "TZ", "USER", "USERNAME",
)  # fmt: skip
PREFIXES = ("LC_", "MERKLE_", "XDG_")
"""What of the environment counts for these commands, and is therefore handed on. No more: nothing
that names programs may reach a process of the service."""

_OF_GIT = ("GIT_CEILING_", "GIT_CONFIG", "GIT_DIR", "GIT_DISCOVERY_")
"""What of the environment decides whom git takes somebody for."""

_MOST = 1 << 20
PATIENCE = 60
"""Seconds to wait for a process that has taken a command and says nothing."""


def hand_over(arguments: list[str]) -> int | None:
    """Let the ready process do it; its exit status, or None where there is none or it refuses."""
    unwanted = os.environ.get("MERKLE_SERVICE_READY", "").lower() in ("0", "false", "no")
    if unwanted or None in (sys.stdin, sys.stdout, sys.stderr):
        return None
    try:
        address = _address(arguments)
        return None if address is None else _ask(address, arguments)
    except (OSError, ValueError):
        return None
    except KeyboardInterrupt:
        # Whatever was under way ends when nobody waits for it.
        return 128 + 2


_OF_A_SERVICE = frozenset(("--idle-exit", "--json", "--open", "--quiet", "--web"))
"""The options with which `watch` is still a service in this process."""


def served_folder(arguments: list[str]) -> str | None:
    """The workspace that a command line wants to be served by this process; None: some other."""
    try:
        folder, rest = _meant(arguments)
    except OSError:
        return None
    options = {argument for argument in rest if argument.startswith("-")}
    return folder if rest[:1] == ["watch"] and options <= _OF_A_SERVICE else None


def _meant(arguments: list[str]) -> tuple[str, list[str]]:
    """The workspace that a command line means, and the command; none where it is not plain."""
    rest, folder = arguments, os.getcwd()
    while rest and rest[0] in ("--json", "--quiet"):
        rest = rest[1:]
    if len(rest) > 1 and rest[0] == "-C":
        # Anywhere else it may be the value of another option: then the ordinary way finds out.
        folder, rest = os.path.abspath(rest[1]), rest[2:]
        while rest and rest[0] in ("--json", "--quiet"):
            rest = rest[1:]
    elif not any(argument.startswith("-C") for argument in rest):
        folder = nearest_workspace(folder)
    return folder, [] if any(argument.startswith("-C") for argument in rest) else rest


def _address(arguments: list[str]) -> str | None:
    """Where the ready process of the workspace listens that a command line means."""
    folder, rest = _meant(arguments)
    if not rest or rest[0] not in ASKED or not _is_all_said(rest):
        return None
    descriptor = os.open(os.path.join(folder, FOLDER), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            return None
        noted = os.open("socket", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
        try:
            address = os.fsdecode(os.read(noted, 4096).strip())
        finally:
            os.close(noted)
        if os.path.basename(address) != name_of_socket(descriptor):
            return None
    finally:
        os.close(descriptor)
    ready = ready_address(address)
    return ready if is_our_socket(ready) else None


def _is_all_said(command: list[str]) -> bool:
    """Whether a command names no file, needs no editor, and would be told the same by git there."""
    if command[0] == "notes":
        return not {"export", "import"}.intersection(command)
    if command[0] != "note":
        return True
    # Without words an editor is opened; whose note it is may be git's to say.
    words = len(command) > 2 and not any(one.startswith("-") for one in command[1:3])
    about_another = command[1:2] in (["--still-true"], ["--withdraw"])
    return (words or about_another) and not any(name.startswith(_OF_GIT) for name in os.environ)


def request(arguments: list[str]) -> bytes:
    """All that the command depends on besides its streams, as texts that no NUL can be in."""
    umask = os.umask(0o077)
    os.umask(umask)
    streams = (sys.stdin, sys.stdout, sys.stderr)
    handed = {
        name: value
        for name, value in os.environ.items()
        if name in ENVIRONMENT or name.startswith(PREFIXES)
    }
    parts = [
        spoken_by(),
        os.getcwd(),
        str(umask),
        *(f"{stream.encoding}:{stream.errors}" for stream in streams),
        str(len(arguments)),
        *arguments,
        *(f"{name}={value}" for name, value in sorted(handed.items())),
    ]
    return b"\0".join(map(os.fsencode, parts))


def spoken_by() -> str:
    """Which code this is: another release must not do what this one was asked."""
    return f"{__version__} {os.path.dirname(os.path.abspath(__file__))} {sys.version}"


def _ask(address: str, arguments: list[str]) -> int | None:
    message = request(arguments)
    if len(message) > _MOST:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(5)
        connection.connect(address)
        _send(connection, len(message).to_bytes(4, "big") + message)
        # From now on it may be being done, and must not be done here too.
        connection.settimeout(PATIENCE)
        try:
            process = _number(connection)
        except KeyboardInterrupt:
            # Whoever is doing it ends when nobody is there any more.
            return 128 + 2
        except TimeoutError:
            sys.stderr.write("error: the process of the service that does this does not answer\n")
            sys.stderr.write("hint: `merkle stop`, and run the command again\n")
            return 3
        if process is None:
            return None
        connection.settimeout(None)
        while True:
            try:
                status = _number(connection)
                break
            except KeyboardInterrupt:
                # The terminal tells only this process; the other one knows how to end.
                os.kill(process, 2)
    finally:
        connection.close()
    if status is None:
        sys.stderr.write("error: the process of the service that did this has ended\n")
        sys.stderr.write("hint: run the command again\n")
        return 3
    return status


def _send(connection: _socket.socket, message: bytes) -> None:
    """Send a message, the three streams with its first bytes."""
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    if sent < len(message):
        # Not of nothing: a command that has ended already would count as one that never arrived.
        connection.sendall(message[sent:])


def _number(connection: _socket.socket) -> int | None:
    received = b""
    while len(received) < 4:
        piece = connection.recv(4 - len(received))
        if not piece:
            return None
        received += piece
    return int.from_bytes(received, "big")
