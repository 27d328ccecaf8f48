# ruff: noqa: SLF001 - a mutant replaces what the core keeps to itself
"""Mutants of Gym's side: executions and acknowledgements."""

from typing import Any

from attrs import evolve

from protocol import executions as x
from protocol import fence as f
from protocol import gym as g
from protocol.executions import COMPLETED, PARK_REQUESTED, PARKED, RUNNING, Execution, Gym, Outcome, RunAnswer
from protocol.fence import Reply
from protocol.identity import Attempt, Receipt
from state_machines.mutants import mutant

OK = Reply(200)


def without(gym: Gym, attempt: Attempt) -> tuple[tuple[Attempt, Execution], ...]:
    return tuple(pair for pair in gym.executions if pair[0] != attempt)


def placed(gym: Gym, attempt: Attempt, execution: Execution) -> Gym:
    return x.with_(gym, tuple(sorted((*without(gym, attempt), (attempt, execution)), key=x.by_attempt)))


def forced(gym: Gym, attempt: Attempt) -> Outcome:
    return Outcome(placed(gym, attempt, Execution(RUNNING)))


def acknowledged(gym: Gym, attempt: Attempt) -> bool:
    return any(receipt.attempt == attempt for receipt in gym.acknowledged)


def state(gym: Gym, attempt: Attempt) -> Any:
    known = gym.find(attempt)
    return None if known is None else known.state


mutant(
    "gym-begin-forgets-acknowledged",
    g.begin,
    lambda begin: lambda gym, a: forced(gym, a) if acknowledged(gym, a) else begin(gym, a),
    "an acknowledged key never runs again",
    "it runs again",
    "sibling",
    "siblings=1,trainer_restarts=1",
)
mutant(
    "gym-begin-forgets-tombstones",
    g.begin,
    lambda begin: lambda gym, a: forced(gym, a) if a in gym.tombstones else begin(gym, a),
    "a tombstoned key never runs again",
    "it runs again",
)
mutant(
    "gym-begin-reruns-completed",
    g.begin,
    lambda begin: lambda gym, a: forced(gym, a) if state(gym, a) is COMPLETED else begin(gym, a),
    "a repeated /run of a completed key is answered with the retained result",
    "it starts a second run",
    "sibling,lost_reply=same_attempt",
    "siblings=1,lost_replies=1",
)
mutant(
    "gym-begin-refuses-completed",
    g.begin,
    lambda begin: (
        lambda gym, a: (
            Outcome(gym, None, (RunAnswer(a, 409, g.DUPLICATE),)) if state(gym, a) is COMPLETED else begin(gym, a)
        )
    ),
    "a repeated /run of a completed key is answered with the retained result",
    "it is refused as a duplicate",
    "sibling,lost_reply=same_attempt",
    "siblings=1,lost_replies=1",
)
mutant(
    "gym-begin-refuses-replay-while-closed",
    g.begin,
    lambda begin: (
        lambda gym, a: (
            begin(gym, a)
            if gym.open or state(gym, a) is not COMPLETED
            else Outcome(gym, None, (RunAnswer(a, 409, g.CLOSED),))
        )
    ),
    "a retained result is replayed also while admission is closed",
    "it is refused as closed",
    "sibling,lost_reply=same_attempt",
    "siblings=1,lost_replies=1",
)
mutant(
    "gym-begin-while-closed",
    g.begin,
    lambda begin: (
        lambda gym, a: evolve(
            begin(evolve(gym, open=True), a), gym=evolve(begin(evolve(gym, open=True), a).gym, open=gym.open)
        )
    ),
    "nothing begins while admission is closed",
    "it begins",
)
mutant(
    "gym-finish-drops-the-result",
    g.finish,
    lambda finish: lambda gym, a, receipt: evolve(finish(gym, a, receipt), gym=x.with_(gym, without(gym, a))),
    "a finished result is retained until it is acknowledged",
    "it is answered and dropped",
)
mutant(
    "gym-fail-leaves-the-run",
    g.fail,
    lambda fail: lambda gym, a: evolve(fail(gym, a), gym=placed(gym, a, Execution(COMPLETED, None, False))),
    "a failed run is retired and removed",
    "it stays, completed, with nothing to acknowledge",
    "sibling",
    "siblings=1,failures=1",
)
mutant(
    "gym-fail-without-tombstone",
    g.fail,
    lambda fail: lambda gym, a: evolve(fail(gym, a), gym=evolve(fail(gym, a).gym, tombstones=gym.tombstones)),
    "the key of a failed run is refused from then on",
    "it may begin again",
)
mutant(
    "gym-disconnect-keeps-running",
    g.lose_client,
    lambda lose: (
        lambda gym, a: (
            evolve(lose(gym, a), gym=placed(gym, a, evolve(gym.find(a), client=False)))
            if state(gym, a) in (RUNNING, PARK_REQUESTED)
            else lose(gym, a)
        )
    ),
    "a running run whose client is lost is retired: nobody would read its result",
    "it runs on",
    "sibling",
    "siblings=1,disconnects=1",
)
mutant(
    "gym-disconnect-retires-the-parked",
    g.lose_client,
    lambda lose: lambda gym, a: evolve(lose(gym, a), gym=x.buried(gym, a)) if gym.find(a) is not None else lose(gym, a),
    "a run parked with a boundary survives the loss of its client until the resume",
    "it is retired",
)
mutant(
    "gym-boundary-does-not-park",
    g.commit_boundary,
    lambda boundary: (
        lambda gym, a, index=None: (
            Outcome(placed(gym, a, Execution(PARK_REQUESTED, 0)))
            if state(gym, a) is PARK_REQUESTED
            else boundary(gym, a, index)
        )
    ),
    "a run that was asked to park parks at its next boundary",
    "it runs on to its end",
)
mutant(
    "gym-ready-with-a-bare-park",
    x.ready,
    lambda ready: lambda gym: all(e.state is PARKED for _, e in gym.executions),
    "a run parked without a boundary blocks the commit",
    "it does not",
    "sibling",
    "siblings=1,refusals=1",
)
mutant(
    "gym-ready-with-unacknowledged",
    x.ready,
    lambda ready: lambda gym: ready(x.with_(gym, tuple(p for p in gym.executions if p[1].state is not COMPLETED))),
    "an un-ACKed result blocks the commit",
    "it does not",
    "sibling",
    "siblings=1",
)
mutant(
    "gym-ready-with-running",
    x.ready,
    lambda ready: lambda gym: all(e.state is not COMPLETED for _, e in gym.executions),
    "a running run blocks the commit",
    "it does not",
    "sibling",
    "siblings=1",
)
mutant(
    "gym-prepare-waits-for-a-change",
    g.prepare,
    lambda prepare: (
        lambda gym, c, expired=False: (
            Outcome(x.with_(gym, gym.executions, f.preparing(gym.fence, c), False))
            if x.ready(gym) and f.answer(gym.fence, f.PREPARE, c) is None
            else prepare(gym, c, expired)
        )
    ),
    "a prepare with nothing running is ready at once",
    "it waits for something to change",
    "sibling",
    "siblings=1",
)
mutant(
    "gym-prepare-waits-for-acknowledgements",
    g._settle,
    lambda settle: lambda gym, expired=False: settle(gym, expired) if expired or x.ready(gym) else (gym, None),
    "a prepare that only un-ACKed results block is answered 409 at once",
    "it waits",
)
mutant(
    "gym-prepare-leaves-admission-open",
    g.prepare,
    lambda prepare: (
        lambda gym, c, expired=False: evolve(
            prepare(gym, c, expired), gym=evolve(prepare(gym, c, expired).gym, open=True)
        )
    ),
    "a prepare closes admission",
    "it leaves it open",
)
mutant(
    "gym-prepare-asks-nobody",
    g.prepare,
    lambda prepare: (
        lambda gym, c, expired=False: evolve(
            out := prepare(gym, c, expired),
            gym=x.with_(
                out.gym,
                tuple((a, evolve(e, state=RUNNING) if e.state is PARK_REQUESTED else e) for a, e in out.gym.executions),
            ),
        )
    ),
    "a prepare asks every running run to park",
    "it asks nobody",
)
mutant(
    "gym-409-keeps-the-phase",
    f.let_go,
    lambda let_go: lambda fence: evolve(fence, waiting=None),
    "a prepare that fails puts the phase back to idle, so that it can be repeated",
    "the phase stays preparing, and a repeated prepare waits with the one that has ended",
    "sibling",
    "siblings=1",
)
mutant(
    "gym-409-opens-admission",
    g._roll_back,
    lambda roll_back: lambda gym: evolve(roll_back(gym), open=True),
    "a prepare that ends not ready leaves admission closed until the resume",
    "it opens admission",
)
mutant(
    "gym-409-wakes-the-parked",
    g._roll_back,
    lambda roll_back: (
        lambda gym: x.with_(
            (after := roll_back(gym)),
            tuple(
                (a, Execution(RUNNING, e.boundary, e.client) if e.state is PARKED else e) for a, e in after.executions
            ),
        )
    ),
    "a prepare that ends not ready leaves parked runs parked until the resume",
    "it wakes them",
)
mutant(
    "gym-resume-leaves-the-parked",
    g.resume,
    lambda resume: (
        lambda gym, c: (
            out if not (out := resume(gym, c)).reply.ok else evolve(out, gym=x.with_(out.gym, gym.executions))
        )
    ),
    "a resume wakes what is parked",
    "it only opens admission",
    "sibling",
    "siblings=1",
)
mutant(
    "gym-resume-wakes-the-detached",
    g.resume,
    lambda resume: (
        lambda gym, c: resume(
            x.with_(gym, tuple((a, evolve(e, client=True) if e.state is PARKED else e) for a, e in gym.executions)), c
        )
    ),
    "a parked run whose client is gone is retired by the resume",
    "it runs on, and its result has no reader",
    "sibling",
    "siblings=1,disconnects=1",
)
mutant(
    "gym-resume-keeps-admission-closed",
    g.resume,
    lambda resume: lambda gym, c: evolve(resume(gym, c), gym=evolve(resume(gym, c).gym, open=gym.open)),
    "a resume opens admission",
    "admission stays closed",
    "sibling",
    "siblings=1",
)
mutant(
    "gym-retire-declines-live-runs",
    g.retire,
    lambda retire: (
        lambda gym, c, a, release=False: (
            Outcome(gym, OK) if state(gym, a) in (RUNNING, PARK_REQUESTED) else retire(gym, c, a, release=release)
        )
    ),
    "retire cancels a live run",
    "it declines it like a completed one",
    "prompt_group,give_up=retire,retire=release",
    "failures=1",
)
mutant(
    "gym-retire-drops-completed",
    g.retire,
    lambda retire: lambda gym, c, a, release=False: retire(gym, c, a, release=True),
    "a completed run is not retired: only an acknowledgement releases a result",
    "its result is dropped",
)
mutant(
    "gym-retire-without-tombstone",
    g.retire,
    lambda retire: (
        lambda gym, c, a, release=False: evolve(
            out := retire(gym, c, a, release=release), gym=evolve(out.gym, tombstones=gym.tombstones)
        )
    ),
    "a retired key is refused from then on",
    "it may begin again",
)

# Acknowledgements


def _acknowledge_known(acknowledge: Any) -> Any:
    def partly(gym: Gym, receipts: tuple[Receipt, ...]) -> Outcome:
        known = tuple(r for r in receipts if (e := gym.find(r.attempt)) is not None and e.receipt == r)
        return evolve(acknowledge(gym, known), reply=OK) if known else acknowledge(gym, receipts)  # type: ignore[no-any-return]

    return partly


mutant(
    "gym-acknowledge-in-part",
    g.acknowledge,
    _acknowledge_known,
    "a batch is acknowledged as a whole or not at all",
    "what can be released is released",
)
mutant(
    "gym-acknowledge-not-idempotent",
    g.acknowledge,
    lambda acknowledge: (
        lambda gym, receipts: (
            Outcome(gym, Reply(409, g.NO_SUCH_RESULT))
            if any(r in gym.acknowledged for r in receipts)
            else acknowledge(gym, receipts)
        )
    ),
    "a receipt that was acknowledged before is a no-op",
    "it is refused",
    "sibling",
    "siblings=1,lost_acknowledges=1",
)
mutant(
    "gym-acknowledge-any-digest",
    g.acknowledge,
    lambda acknowledge: (
        lambda gym, receipts: acknowledge(
            gym, tuple(e.receipt if (e := gym.find(r.attempt)) and e.receipt else r for r in receipts)
        )
    ),
    "an acknowledgement is the receipt, exactly: every field takes part",
    "the attempt is enough",
)
mutant(
    "gym-acknowledge-keeps-the-result",
    g.acknowledge,
    lambda acknowledge: (
        lambda gym, receipts: evolve(out := acknowledge(gym, receipts), gym=x.with_(out.gym, gym.executions))
    ),
    "an acknowledgement releases the result",
    "the result stays",
    "sibling",
    "siblings=1",
)
mutant(
    "gym-receipt-of-another-generation",
    g.completion_receipt,
    lambda fetch: (
        lambda gym, a: evolve(
            out := fetch(gym, a),
            reply=out.reply
            if out.reply.receipt is None
            else evolve(out.reply, receipt=evolve(out.reply.receipt, execution_generation=2)),
        )
    ),
    "the receipt that is fetched is the one that must come back",
    "its generation differs",
    "sibling",
    "siblings=1",
)
