"""Which workspace a folder belongs to, and which socket is that of its service.

Only what the interpreter has loaded anyway is imported here: a command that is handed over to a
running service needs nothing else.
"""

from __future__ import annotations

import os
import sys

# Not from `typing`, which takes longer to load than Python itself to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    from collections.abc import Callable

FOLDER = ".merkle"
MARKERS = (FOLDER, "merkle.toml", ".git")
"""What marks a folder as a workspace."""


def nearest_workspace(start: str) -> str:
    """The nearest folder at or above an absolute one that is marked, else the one given."""
    folder = start
    while True:
        if any(os.path.exists(os.path.join(folder, marker)) for marker in MARKERS):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return start
        folder = above


def name_of_socket(folder: int) -> str:
    """What the socket of the service of this very `.merkle` is called; a copy's is not the same."""
    stat = os.fstat(folder)
    return _sha256()(f"{stat.st_dev}:{stat.st_ino}".encode()).hexdigest()[:20] + ".sock"


def _sha256() -> Callable[[bytes], hashlib._Hash]:
    """The function of that name, without OpenSSL, which `hashlib` loads for others than this."""
    # Imported late: not needed where no service has ever run.
    try:
        name = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
        found: Callable[[bytes], hashlib._Hash] = __import__(name).sha256
    except ImportError:
        from hashlib import sha256 as found
    return found


def is_our_socket(address: str) -> bool:
    """Whether a socket is this user's own; root trusts nobody else's either."""
    try:
        stat = os.lstat(address)
    except (OSError, ValueError):
        return False
    # The numbers of `S_IFMT` and `S_IFSOCK`, without the module that names them.
    return stat.st_mode & 0o170000 == 0o140000 and stat.st_uid == os.getuid()


def ready_address(address: str) -> str:
    """Where the process listens that a service keeps ready for commands."""
    return address.removesuffix(".sock") + ".ready"
