"""How much memory this process takes."""

import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")


def memory(*, peak: bool = False) -> int:
    """Return the resident memory of this process in bytes, now or at its peak."""
    if not peak and _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024
