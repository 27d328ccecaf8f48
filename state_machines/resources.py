"""How much memory this process takes, and the machine has."""

import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_MEMINFO = Path("/proc/meminfo")


def memory(*, peak: bool = False) -> int:
    """Return the resident memory of this process in bytes, now or at its peak."""
    if not peak and _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def available() -> int:
    """Return the bytes of memory that may still be taken without swapping; half of all, where nobody tells."""
    if _MEMINFO.exists():
        fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
