"""A lock with leases, as a pure model. Its trap: a holder that pins its lease, crashes, and forgets.

A server grants the lock to one of two clients, with a lease. A client that holds it may *pin* it, which stops the
clock until it is released. A client that crashes comes back and does not know that it holds anything.
"""

from attrs import evolve, frozen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from state_machines.attach import always_recoverable


@frozen
class Lock:
    holder: int | None = None
    pinned: bool = False
    knows: tuple[bool, bool] = (False, False)  # what each client remembers: that it holds the lock


def enabled(lock: Lock) -> list[str]:
    """What the pair does by itself: clients give back what they know to hold, leases run out unless pinned."""
    if lock.holder is None:
        return []
    events = ["release"] if lock.knows[lock.holder] else []
    return events if lock.pinned else [*events, "expire"]


def step(lock: Lock, event: str) -> Lock:
    return Lock(knows=_knows(lock, False)) if event in ("release", "expire") else lock


def free(lock: Lock) -> bool:
    return lock.holder is None


def _knows(lock: Lock, value: bool) -> tuple[bool, bool]:
    return tuple(value if i == lock.holder else known for i, known in enumerate(lock.knows))  # type: ignore[return-value]


class Leases(RuleBasedStateMachine):
    """What Hypothesis alone checks: no crash, and nobody ever holds the lock twice. It finds nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.state = Lock()

    @rule(client=st.integers(0, 1))
    def acquire(self, client: int) -> None:
        if free(self.state):
            taken = evolve(self.state, holder=client)
            self.state = evolve(taken, knows=_knows(taken, True))

    @precondition(lambda self: self.state.holder is not None)
    @rule()
    def pin(self) -> None:
        self.state = evolve(self.state, pinned=True)

    @precondition(lambda self: self.state.holder is not None)
    @rule()
    def crash(self) -> None:
        self.state = evolve(self.state, knows=_knows(self.state, False))

    @precondition(lambda self: enabled(self.state))
    @rule(data=st.data())
    def proceed(self, data: st.DataObject) -> None:
        self.state = step(self.state, data.draw(st.sampled_from(enabled(self.state))))


@always_recoverable(enabled, step, free)
class RecoverableLeases(Leases):
    """The same machine, asked after every step whether the lock can still become free. It fails in three steps."""
