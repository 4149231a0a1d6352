"""Folders for sockets: in memory, where making and removing one takes no disk, or in /tmp.

Not wherever temporary folders may be: the path of a socket ends at about 107 bytes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
HAS_MEMORY: Final = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30
SHORT: Final = str(MEMORY) if HAS_MEMORY else "/tmp"
