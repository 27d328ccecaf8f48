"""What happens next if everything goes well: the continuation of a history that shows where its pair ends up.

No fault happens any more. Answers arrive, debts are paid, runs that were asked to park do and the others finish; when
nothing else is left, a snapshot is tried. The deadline of a prepare passes when asking again changes nothing. It is one
continuation, chosen to explain a verdict and not to decide it: the verdict has tried them all.
"""

from functools import lru_cache
from typing import Any, Final

from attrs import evolve, frozen

from protocol.events import Boundary, Deadline, Event, Finish, Owner, Prepare, Snapshot
from protocol.gym import State
from protocol.properties import preparing
from protocol.snapshot import Step
from protocol.state import System
from protocol.system import enabled, step
from protocol.trainer import GIVEN_UP
from state_machines.replay import Replay
from state_machines.report.changes import status_line

LIMIT: Final = 120  # events; every continuation of the scopes people use settles long before
SYSTEM: Final = frozenset({Owner.SYSTEM})


@frozen
class Onward:
    """A continuation. `states[0]` is where it starts; `end` says how it ended, in one sentence."""

    events: tuple[Event, ...]
    states: tuple[System, ...]
    end: str


@lru_cache(maxsize=1024)
def onward(start: System, *, snapshot: bool = True) -> Onward:
    """Return how `start` goes on when everything goes well from here.

    A snapshot that is under way is followed to its end. Otherwise, with `snapshot`, one more is tried when everything
    else has ended, also when the scope has none left.
    """
    system, tried = start, False
    events: list[Event] = []
    states, asked = [start], set[object]()
    blocked = preparing(start)
    while len(events) < LIMIT:
        event = _next(system, asked)
        if blocked and system.snapshot.step is Step.IDLE:
            break
        if event is None and snapshot and not tried and system.snapshot.step is Step.IDLE:
            tried = True
            if system.snapshot.ended:
                break
            system = _one_more(system)
            states[-1] = system
            event = Snapshot()
        if event is None:
            break
        if isinstance(event, Prepare):
            asked.add(_asked(system))
        if isinstance(event, Deadline):
            tried = True
        system = step(system, event)
        events.append(event)
        states.append(system)
    return Onward(tuple(events), tuple(states), _end(start, system))


def _end(start: System, end: System) -> str:
    """How a continuation ended. After a commit the runs go on: that Gym is not ready then is nothing to wait for."""
    line, name = status_line(end), end.snapshot.published
    if name == start.snapshot.published or any(e.state is State.COMPLETED for _, e in end.gym.executions):
        return line
    return line.replace("Gym is not ready:", f"Snapshot {end.snapshot.checkpoint_id} is committed, and the runs go on:")


def extended(replay: Replay, *, snapshot: bool = True) -> tuple[Replay, int, str]:
    """Return the history with its continuation, how many events it had without, and how it ends."""
    further = onward(replay.states[-1], snapshot=snapshot)
    states = (*replay.states[:-1], *further.states)
    return (
        evolve(replay, events=(*replay.events, *further.events), states=states),
        len(replay.events),
        further.end,
    )


def _next(system: System, asked: set[object]) -> Event | None:
    """The next thing that goes well. A prepare that was sent from this very state is not sent again."""
    possible = [e for e in enabled(system, SYSTEM) if not (isinstance(e, Prepare) and _asked(system) in asked)]
    if not possible:
        return None
    return min(possible, key=lambda event: (_rank(system, event), possible.index(event)))


def _asked(system: System) -> object:
    """What the answer to a prepare depends on."""
    return system.gym.executions, system.wire, system.trainer.outbox, system.trainer.draining


def _rank(system: System, event: Event) -> int:
    if isinstance(event, Deadline):
        return 4
    if isinstance(event, Finish):
        entry = system.trainer.entry(event.attempt)
        late = entry is None or entry.status in GIVEN_UP
        return 3 if late else 2  # what the trainer waits for first, then what it has given up
    return 1 if isinstance(event, Boundary) else 0


def _one_more(system: System) -> System:
    if system.snapshot.number + 1 < system.scope.snapshots:
        return system
    limit: dict[str, Any] = {"snapshots": min(system.snapshot.number + 2, 9)}
    return evolve(system, scope=evolve(system.scope, **limit))
