"""A policy that notes which of its axes are read, so that what was learned under it is known to hold for others too.

Whatever is computed from a policy is decided by the axes that were read on the way. Explorations of several policies
keep what they learn in one `Kin`: the interned parts, which no policy changes, and for each lesson the axes it read. A
policy that agrees on those axes gets the lesson without a real step.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from protocol.policy import AXES, Policy

T = TypeVar("T")
NAMES: Final = frozenset(AXES)
Kin = dict[Any, dict[str, Any]]
Lessons = list[tuple[tuple[tuple[str, Any], ...], Any]]
_peek: Final = object.__getattribute__


class Watched(Policy):
    """A policy that notes which of its axes are read. Equal to itself only, so that comparing it reads nothing."""

    __slots__ = ("kin", "reads")
    reads: set[str]
    kin: Kin

    def __getattribute__(self, name: str) -> Any:
        if name in NAMES:
            _peek(self, "reads").add(name)
        return _peek(self, name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def once(self, lessons: Lessons, learn: Callable[[], T]) -> T:
        """Return what `learn` returns, from a lesson when one was learned under a policy that reads the same."""
        for fixed, found in lessons:
            if all(_peek(self, name) is value for name, value in fixed):
                self.reads.update([name for name, _ in fixed])
                return found  # type: ignore[no-any-return]
        before = self.reads
        object.__setattr__(self, "reads", set())
        try:
            learned = learn()
            lessons.append((tuple((name, _peek(self, name)) for name in AXES if name in self.reads), learned))
        finally:
            before |= self.reads
            object.__setattr__(self, "reads", before)
        return learned


def watched(policy: Policy, kin: Kin | None = None) -> Watched:
    """Return `policy` as one that notes what is read of it from now on, and learns together with its `kin`."""
    found: Watched = object.__new__(Watched)
    object.__setattr__(found, "reads", set())
    object.__setattr__(found, "kin", {} if kin is None else kin)
    Watched.__init__(found, **{name: getattr(policy, name) for name in AXES})
    found.reads.clear()
    return found
