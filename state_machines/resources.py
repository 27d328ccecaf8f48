"""How much memory this process takes, and the machine has."""

import os
import resource
import sys


def memory(*, peak: bool = False) -> int:
    """Return the resident memory of this process in bytes, now or at its peak."""
    if not peak and (pages := _read("/proc/self/statm")):
        return int(pages.split()[1]) * resource.getpagesize()
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def available() -> int:
    """Return the bytes of memory that may still be taken without swapping; half of all, where nobody tells."""
    if lines := _read("/proc/meminfo"):
        fields = dict(line.split(":", 1) for line in lines.splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _read(name: str) -> str:
    """Return what the kernel tells in a file, or nothing where there is none."""
    try:
        with open(name) as file:  # noqa: PTH123 - importing pathlib takes longer than a small proof
            return file.read()
    except FileNotFoundError:
        return ""
