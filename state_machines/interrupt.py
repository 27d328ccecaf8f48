"""Ctrl-C, wherever it comes: inside a library that loses it, or makes another error of it. A time bound is one too."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

AGAIN: Final = 0.01  # seconds until an interrupt that came where it would be lost comes again
LOSE: Final = frozenset({"gc_callback", "__del__"})  # Python only prints what is raised in these


class _Seen:
    interrupts = 0


def count() -> int:
    """Return how many interrupts have come so far."""
    return _Seen.interrupts


def _notice(_: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_name in LOSE:
            threading.Timer(AGAIN, _thread.interrupt_main).start()
            return
        frame = frame.f_back
    _Seen.interrupts += 1
    raise KeyboardInterrupt


@contextmanager
def noticed() -> Iterator[None]:
    """Raise KeyboardInterrupt where it is not lost, and for every error that an interrupt was turned into."""
    ours = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, _notice) if ours else None
    came = count()
    try:
        yield
    except Exception:
        if count() == came:
            raise
        raise KeyboardInterrupt from None
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


@contextmanager
def after(seconds: float | None) -> Iterator[None]:
    """Interrupt the block when it takes longer than this; None for never."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, _thread.interrupt_main)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # when it has just ended, its interrupt comes here and not later
