"""Mutants of the control fence: which checkpoint id may do what, and when."""

from attrs import evolve

from protocol import fence as f
from protocol.fence import Fence, Phase
from state_machines.mutants import mutant

mutant(
    "fence-commit-in-idle",
    f.answer,
    lambda answer: lambda fence, op, c: None if op == f.COMMIT and fence.phase is Phase.IDLE else answer(fence, op, c),
    "a commit needs a prepared phase",
    "it is legal in idle",
)
mutant(
    "fence-forgets-other-ids",
    f.answer,
    lambda answer: lambda fence, op, c: answer(evolve(fence, active=c if fence.active else None), op, c),
    "while one id is active another is refused as a conflict",
    "another id may act",
)
mutant(
    "fence-forgets-retired-ids",
    f.answer,
    lambda answer: lambda fence, op, c: answer(evolve(fence, retired=()), op, c),
    "a resume retires its id for ever",
    "the id may be used again",
)
mutant(
    "fence-repeated-resume-is-stale",
    f.answer,
    lambda answer: (
        lambda fence, op, c: f.STALE_REPLY if op == f.RESUME and c in fence.retired else answer(fence, op, c)
    ),
    "a repeated resume gets its recorded answer",
    "it is refused as stale, for ever",
    "sibling,resume_retry=at_once",
    "siblings=1,lost_resumes=1",
)
mutant(
    "fence-resume-needs-an-active-id",
    f.answer,
    lambda answer: (
        lambda fence, op, c: f.INVALID_PHASE_REPLY if op == f.RESUME and fence.active is None else answer(fence, op, c)
    ),
    "a resume is legal in idle: after a failed prepare the phase is idle and admission still closed",
    "it is an invalid phase",
    "sibling,resume_retry=at_once",
    "siblings=1",
)
mutant(
    "fence-forgets-recorded-answers",
    f.answer,
    lambda answer: lambda fence, op, c: answer(evolve(fence, recorded=()), op, c),
    "the same id and operation again returns the recorded success",
    "it runs again, or is refused",
)


def _kept(fence: Fence) -> Fence:
    return evolve(fence, phase=Phase.PREPARED)


mutant(
    "fence-commit-stays-prepared",
    f.committed,
    lambda committed: lambda fence, c, reply: _kept(committed(fence, c, reply)),
    "a commit pauses Gym until the resume; retire is refused meanwhile",
    "the phase stays prepared",
)
