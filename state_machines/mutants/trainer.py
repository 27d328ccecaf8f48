# ruff: noqa: SLF001 - a mutant replaces what the core keeps to itself
"""Mutants of the trainer's ledger and debts."""

from typing import Any

from attrs import evolve

from protocol import debts as d
from protocol import runs as u
from protocol import state as s
from protocol import trainer as t
from protocol.identity import Attempt, Receipt, locate, model_receipt
from protocol.policy import Granularity
from protocol.trainer import AttemptStatus, Entry, Group, GroupStatus, Seen, Trainer
from state_machines.mutants import mutant

SEALED = Entry(AttemptStatus.SEALED, Seen.RESULT)

mutant(
    "trainer-seal-without-debt",
    t.result_arrives,
    lambda arrives: (
        lambda trainer, policy, a, receipt: arrives(trainer, policy, a, receipt).replace(outbox=trainer.outbox)
    ),
    "the seal of a result records its ACK debt",
    "no debt is recorded",
    "sibling",
    "siblings=1",
)
mutant(
    "trainer-group-seal-owes-the-last",
    t._seal_when_complete,
    lambda seal: (
        lambda trainer, policy, a: (
            after if len((after := seal(trainer, policy, a)).outbox) < 2 else after.replace(outbox=after.outbox[-1:])
        )
    ),
    "one cut records the debts of all siblings of a group",
    "only one of them is recorded",
    "prompt_group",
)


def _seals_early(seal: Any) -> Any:
    def early(trainer: Trainer, policy: Any, a: Attempt) -> Trainer:
        g, sibling = locate(a.rollout)
        group = trainer.groups[g]
        assert group is not None
        siblings = tuple(
            (*entries[:-1], SEALED) if i == sibling else entries for i, entries in enumerate(group.siblings)
        )
        ready = t._with_group(trainer, g, Group(GroupStatus.READY_TO_FINALIZE, siblings))
        return t.owe(ready, model_receipt(a))

    return early


mutant(
    "trainer-group-seals-early",
    t._seal_when_complete,
    _seals_early,
    "a group is sealed when every result is held",
    "it is sealed with the first one",
    "prompt_group",
)
mutant(
    "trainer-siblings-seal-the-group",
    t._ready_when_sealed,
    lambda ready: (
        lambda trainer, a: t._with_group(
            trainer,
            locate(a.rollout)[0],
            Group(GroupStatus.READY_TO_FINALIZE, trainer.groups[locate(a.rollout)[0]].siblings),
        )
    ),
    "a group is ready to finalize when its last sibling is sealed",
    "it is ready when its first one is",
    "sibling",
)


def _abandons_one(fails: Any) -> Any:
    def one(trainer: Trainer, policy: Any, bound: int, a: Attempt, seen: Seen) -> Trainer:
        return fails(trainer, evolve(policy, granularity=Granularity.SIBLING), bound, a, seen)  # type: ignore[no-any-return]

    return one


mutant(
    "trainer-abandons-one-sibling",
    t.attempt_fails,
    _abandons_one,
    "in prompt_group a failed sibling abandons the entire group",
    "only the failed one gets a new attempt, and the group is sealed from two attempts",
    "prompt_group",
    "failures=1",
)
mutant(
    "trainer-abandons-the-whole-group",
    t.attempt_fails,
    lambda fails: (
        lambda trainer, policy, bound, a, seen: fails(
            trainer, evolve(policy, granularity=Granularity.PROMPT_GROUP), bound, a, seen
        )
    ),
    "in sibling mode the others keep their attempts",
    "every unsealed sibling is given up with the failed one",
    "sibling",
    "failures=1",
)
mutant(
    "trainer-no-retry",
    t.attempt_fails,
    lambda fails: (
        lambda trainer, policy, bound, a, seen: (
            t.mark(trainer, a, Entry(AttemptStatus.FAILED, seen)) if trainer.is_current(a) else trainer
        )
    ),
    "a failed sibling gets the next attempt, or its group is dropped",
    "it is noted, and nothing follows",
    "sibling",
    "siblings=1,failures=1",
)


def current_of(trainer: Trainer, a: Attempt) -> Attempt:
    g, sibling = locate(a.rollout)
    group = trainer.groups[g]
    return a if group is None else Attempt(a.rollout, len(group.siblings[sibling]) - 1)


mutant(
    "trainer-late-failure-fails-the-newer",
    t.attempt_fails,
    lambda fails: lambda trainer, policy, bound, a, seen: fails(trainer, policy, bound, current_of(trainer, a), seen),
    "the late failure of an attempt given up changes nothing about a newer one",
    "it fails the current attempt",
    "prompt_group_repaired",
    "failures=2",
)
mutant(
    "trainer-late-result-seals-the-newer",
    t.late_result,
    lambda late: lambda trainer, policy, a, receipt: t.owe(t.mark(trainer, current_of(trainer, a), SEALED), receipt),
    "the late result of an attempt given up changes nothing about a newer one",
    "it is taken for the result of the current attempt",
    "prompt_group",
    "failures=1",
)


def _seals_again(arrives: Any) -> Any:
    def again(trainer: Trainer, policy: Any, a: Attempt, receipt: Receipt) -> Trainer:
        entry = trainer.entry(a)
        if entry is None or entry.status is not AttemptStatus.SEALED:
            return arrives(trainer, policy, a, receipt)  # type: ignore[no-any-return]
        g, sibling = locate(a.rollout)
        group = trainer.groups[g]
        assert group is not None
        siblings = tuple((*e, SEALED) if i == sibling else e for i, e in enumerate(group.siblings))
        return t._with_group(trainer, g, Group(group.status, siblings))

    return again


mutant(
    "trainer-duplicate-is-a-second-result",
    t.result_arrives,
    _seals_again,
    "the same result again is a no-op",
    "it is sealed once more",
    "sibling",
    "siblings=1,duplicates=1",
)
mutant(
    "trainer-drop-clears-the-outbox",
    t.attempt_fails,
    lambda fails: (
        lambda trainer, policy, bound, a, seen: (
            after.replace(outbox=())
            if (after := fails(trainer, policy, bound, a, seen)).group_of(a).status is GroupStatus.DROPPED
            else after
        )
    ),
    "the outbox lives apart from the groups, so a debt survives the drop of its group",
    "it goes with the group",
    "sibling",
    "attempts=1,failures=1",
)
mutant(
    "trainer-finalize-clears-the-outbox",
    t.finalize,
    lambda finalize: lambda trainer, group: finalize(trainer, group).replace(outbox=()),
    "a debt survives the end of its group",
    "it goes with the group",
    "sibling",
    "siblings=1",
)
mutant(
    "trainer-owes-at-dispatch",
    t.mark,
    lambda mark: (
        lambda trainer, a, entry: (
            t.owe(mark(trainer, a, entry), model_receipt(a)) if entry == t.SENT else mark(trainer, a, entry)
        )
    ),
    "a debt is recorded for a result that was seen",
    "it is recorded when the run is sent",
    "sibling",
    "siblings=1",
)
mutant(
    "trainer-owes-without-a-receipt",
    u._fetched,
    lambda fetched: lambda system, a: model_receipt(a),
    "a debt is recorded with the receipt that Gym gave",
    "it is recorded though Gym has none",
    "sibling_repaired",
    "siblings=1,disconnects=1",
)
mutant(
    "trainer-ignores-late-results",
    t.late_result,
    lambda late: lambda trainer, policy, a, receipt: t.mark(trainer, a, Entry(trainer.entry(a).status, Seen.LATE)),
    "late=acknowledge records the debt of a late result",
    "it is ignored",
    "prompt_group_repaired",
    "failures=1",
)
mutant(
    "trainer-flush-clears-on-error",
    d.flush_fails,
    lambda fails: lambda system: fails(system.replace(trainer=system.trainer.replace(outbox=()))),
    "a debt is cleared only when Gym confirms it",
    "it is cleared when the flush was sent",
    "sibling",
    "siblings=1,lost_acknowledges=1",
)
mutant(
    "trainer-confirms-nothing",
    t.confirmed,
    lambda confirmed: lambda trainer: trainer,
    "what Gym confirmed leaves the outbox",
    "it stays, and is sent again for ever",
    "sibling",
    "siblings=1",
)
mutant(
    "trainer-new-debt-leaves-the-drain-dead",
    t.owe,
    lambda owe: lambda trainer, *receipts: owe(trainer, *receipts).replace(draining=trainer.draining),
    "a new debt wakes the drain",
    "a drain that died stays dead",
    "sibling",
    "lost_acknowledges=1",
)
mutant(
    "trainer-drain-never-dies",
    t.flush_failed,
    lambda failed: lambda trainer, policy: trainer.replace(draining=False),
    "drain=reschedule comes back after an error",
    "it does not",
    "sibling,drain=reschedule",
    "siblings=1,lost_acknowledges=1",
)
mutant(
    "trainer-sends-while-frozen",
    s.dispatch,
    lambda dispatch: (
        lambda system: evolve(
            out := dispatch(system.at(evolve(system.snapshot, step=type(system.snapshot.step).IDLE))),
            trainer=out.trainer.replace(snapshot=system.snapshot),
        )
    ),
    "nothing is sent while the registry is frozen",
    "it is sent, and a closed Gym refuses it: attempts are used up",
    "sibling",
    "failures=1",
)
mutant(
    "trainer-gives-up-what-it-holds",
    d.given_up,
    lambda given_up: (
        lambda system: tuple(
            e.receipt
            for _, e in system.gym.executions
            if e.receipt is not None and e.receipt not in system.trainer.outbox
        )
    ),
    "reconciliation acknowledges only what was given up",
    "it acknowledges whatever Gym retains",
    "prompt_group_reconciled",
    "siblings=1",
)
mutant(
    "trainer-reconciles-nothing",
    d.given_up,
    lambda given_up: lambda system: (),
    "reconciliation finds the retained results of what was given up",
    "it finds nothing",
    "prompt_group_reconciled",
    "failures=1",
)
mutant(
    "trainer-retires-the-current",
    t._retire_later,
    lambda later: (
        lambda trainer, policy, attempts: later(
            trainer,
            policy,
            [Attempt(a.rollout, len(trainer.group_of(a).siblings[locate(a.rollout)[1]]) - 1) for a in attempts],
        )
    ),
    "the trainer retires what it gave up",
    "it retires the attempt that follows",
    "prompt_group,give_up=retire,retire=release",
    "failures=1",
)
mutant(
    "trainer-retires-nothing",
    t._retire_later,
    lambda later: lambda trainer, policy, attempts: trainer,
    "give_up=retire retires every attempt that is given up",
    "it retires none",
    "prompt_group,give_up=retire,retire=release",
    "failures=1",
)
