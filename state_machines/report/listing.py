"""A history as a plain list: one event a line with what both sides show after it, what follows, and who is left why."""

from collections.abc import Iterable, Iterator

from rich import box
from rich.table import Table

from protocol.gym import State
from protocol.identity import Attempt, rollout_id
from protocol.state import System
from protocol.trainer import GIVEN_UP, HELD, AttemptStatus, Entry, GroupStatus, Seen
from protocol.wire import Kind
from state_machines.recovery import SystemRecovery
from state_machines.replay import Replay
from state_machines.report.changes import names
from state_machines.report.onward import Onward
from state_machines.settling import SystemFairness


def listing(replay: Replay) -> Table:
    """Return the history as a table: the events, and RL's and Gym's view after each of them."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("", justify="right", style="dim")
    table.add_column("event", no_wrap=True)
    table.add_column("RL", ratio=1)
    table.add_column("Gym", ratio=1)
    for number, (event, system) in enumerate(zip(replay.events, replay.states[1:], strict=True), 1):
        table.add_row(str(number), str(event), rl_view(system), gym_view(system))
    return table


def rl_view(system: System) -> str:
    """Return what the trainer holds, has sealed and owes; what it has given up; `-` for nothing of these."""
    held, sealed, lost = [], [], []
    for attempt, entry in _ledger(system):
        if entry == HELD:
            held.append(attempt)
        elif entry.status is AttemptStatus.SEALED:
            sealed.append(attempt)
        elif entry.status in GIVEN_UP:
            lost.append(attempt)
    owed = [receipt.attempt for receipt in system.trainer.outbox]
    return _view({"held": held, "sealed": sealed, "owed": owed, "given up": lost})


def gym_view(system: System) -> str:
    """Return what runs, is parked and is un-ACKed at Gym, and whether its admission is closed."""
    by_state: dict[State, list[Attempt]] = {}
    for attempt, execution in system.gym.executions:
        by_state.setdefault(execution.state, []).append(attempt)
    running = by_state.get(State.RUNNING, []) + by_state.get(State.PARK_REQUESTED, [])
    parked, unacked = by_state.get(State.PARKED, []), by_state.get(State.COMPLETED, [])
    view = _view({"running": running, "parked": parked, "un-ACKed": unacked})
    return view if system.gym.open else f"closed; {view}"


def _view(parts: dict[str, list[Attempt]]) -> str:
    return "; ".join(f"{word} {short(attempts)}" for word, attempts in parts.items() if attempts) or "-"


def short(attempts: Iterable[Attempt]) -> str:
    """Return attempts as compactly as they can still be read: `p0_g0/0 g1/0 p1_g2/1`."""
    out, group = [], ""
    for attempt in sorted(attempts):
        prefix, _, sibling = attempt.rollout.partition("_")
        out.append(str(attempt) if prefix != group else f"{sibling}/{attempt.index}")
        group = prefix
    return " ".join(out)


def afterwards(further: Onward) -> str:
    """Return a continuation as one sentence: what happens, one after the other, and how it ends."""
    if not further.events:
        return f"Nothing more happens by itself. {further.end}."
    steps = ", ".join(str(event) for event in further.events)
    return f"{steps}. {further.end}."


def unfair(replay: Replay) -> str:
    """Return how a fair run never settles, for an unfair history, or nothing."""
    if replay.verdict is None or replay.verdict.word != "unfair" or replay.at is None:
        return ""
    lasso = SystemFairness(SystemRecovery()).lasso(replay.states[replay.at])
    return "" if lasso is None else str(lasso)


def why(end: System) -> list[str]:
    """Return, for each finished result that Gym retains in `end`, the sentence that says why nobody releases it."""
    owed = {receipt.attempt for receipt in end.trainer.outbox}
    held = [a for a, e in end.gym.executions if e.state is State.COMPLETED]
    return [_why(end, attempt, attempt in owed) for attempt in held]


def _why(system: System, attempt: Attempt, owed: bool) -> str:
    if owed:
        return f"{attempt} is owed, but no flush that Gym accepts releases it."
    entry = system.trainer.entry(attempt)
    if entry is None:
        return f"{attempt}: RL's ledger does not know it, so no debt is ever recorded."
    message = system.wire.find(attempt)
    if entry.status in GIVEN_UP:
        seen = Seen.LOST if message is not None and message.kind is Kind.LOST else entry.seen
        return f"{attempt}: {SEEN.get(seen, 'RL gave it up, and records no debt for it.')}"
    if entry == HELD:
        siblings = ", ".join(str(a) for a in _waits_for(system, attempt))
        return f"{attempt}: RL holds its result and records the debt at the seal, which waits for {siblings}."
    return f"{attempt}: RL has not seen its answer yet."


SEEN = {
    Seen.RESULT: "RL held its result, and cleared it when the group was given up: no seal will record its debt.",
    Seen.LATE: "its result reached RL after the attempt was given up, and was ignored.",
    Seen.RAISED: "its result reached RL after the attempt was given up, and was an error.",
    Seen.LOST: "its reply was lost: RL saw an error, never the receipt, and has gone on without it.",
    Seen.UNFETCHED: "its receipt could not be fetched, and RL has gone on without it.",
    Seen.RESTARTED: "a restart gave it up, and records no debt for it.",
}


def _waits_for(system: System, attempt: Attempt) -> list[Attempt]:
    group = attempt.rollout.partition("_")[0]
    return [
        other
        for other, entry in _ledger(system)
        if other.rollout.partition("_")[0] == group and entry.status is AttemptStatus.DISPATCHED and entry != HELD
    ]


def _ledger(system: System) -> Iterator[tuple[Attempt, Entry]]:
    for g, group in enumerate(system.trainer.groups):
        if group is None or group.status is GroupStatus.FINALIZED:
            continue
        for s, entries in enumerate(group.siblings):
            for i, entry in enumerate(entries):
                yield Attempt(rollout_id(g, s), i), entry


def left(system: System) -> str:
    """Return what is left un-ACKed, as a list."""
    return names(a for a, e in system.gym.executions if e.state is State.COMPLETED)
