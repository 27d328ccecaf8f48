"""Hunting: Hypothesis looks for histories that break a property, again and again until nothing new comes out.

One run of Hypothesis reports what it met first. So a hunt runs it repeatedly; what is known is no longer a failure but
a step that is not taken, and the hunt ends with a run that used its whole budget of examples and found nothing new.
Each finding is then shrunk once more and certified (`shrink`).
"""

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

from attrs import frozen
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import seed as seeded
from hypothesis.database import ExampleDatabase
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from protocol.events import Event
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import initial
from protocol.system import step
from state_machines import interrupt
from state_machines.machine import Session, machine, steps, with_session
from state_machines.report.onward import onward
from state_machines.search import Decider
from state_machines.shrink import plainest, shrink
from state_machines.targets.base import DIVERGED, Divergence, Target, TargetError, TargetStopped
from state_machines.targets.shrinking import shrink_on
from state_machines.verdict import Finding, Judge, Verdict
from state_machines.walk import Walk
from state_machines.witness import WITNESSES, expected, witnesses

INTERRUPTED: Final = "interrupted"
OUT_OF_TIME: Final = "out of time"
UNDECIDED: Final = "unknown: a state was met whose continuations are too many to decide"
QUICK: Final = 1_000  # states of one question, once a hunt was stopped
DEFAULT: Final = 500  # examples of one run; what it takes to find every cause 50 times of 50: benchmarks/hunt.py


@frozen
class HuntFinding:
    """A verdict and its shortest history.

    `shortest` is the length of the shortest that exists, or None when there was too much to look at. `certified` says
    whether shrinking alone had got there; when it had not, `events` are the shorter history that the certificate met.
    `diverged` holds the observations of the model and the target for a finding of that kind.
    """

    verdict: Verdict
    events: tuple[Event, ...]
    certified: bool | None = None
    shortest: int | None = None
    diverged: Divergence | None = None


@frozen
class HuntResult:
    """What a hunt found, in the order of verdicts, and what it did.

    `unknown`: a state was met that could not be decided, so that finding nothing says nothing. `witnesses` counts the
    histories that saw each of `witness.WITNESSES`; `missing` are those that were expected and not seen. `stopped` says
    why the hunt ended before it was done, `interrupted` or `out of time`: then nothing is certified.
    """

    policy: Policy
    scope: Scope
    findings: tuple[HuntFinding, ...]
    unknown: bool
    seed: int
    examples: int
    states: int
    steps: int
    seconds: float
    witnesses: dict[str, int]
    missing: tuple[str, ...] = ()
    stopped: str | None = None

    @property
    def vacuous(self) -> bool:
        """Whether the hunt did not see what every sound hunt of its policy and scope sees."""
        return bool(self.missing)

    @property
    def verdicts(self) -> frozenset[Verdict]:
        return frozenset(finding.verdict for finding in self.findings)


@frozen
class Progress:
    """Where a hunt stands: different states met, examples run, verdicts found so far."""

    states: int
    examples: int
    findings: int


def hunt(
    policy: Policy,
    scope: Scope,
    *,
    seed: int | None = None,
    examples: int = DEFAULT,
    database: ExampleDatabase | None = None,
    target: Target | None = None,
    progress: Callable[[Progress], Any] | None = None,
    derandomize: bool = False,
    certify: bool = True,
    seconds: float | None = None,
    partial: bool = False,
    fair: bool = False,
    design: str = "acknowledge",
) -> HuntResult:
    """Return every verdict that random histories of `policy` in `scope` meet, each with its shortest history.

    The same `seed` finds the same; None draws one, and `derandomize` takes one from the policy and scope. `examples` is
    the budget of each run of Hypothesis. With a `target` every step runs there too, and a difference from the model is
    a finding. Raises targets.TargetError when the target stops.

    With `fair` it also looks for unfair histories (`settling`). `design` is the one in place (`designs.design`).

    After `seconds`, and with `partial` after Ctrl-C too, it returns what was found so far; not with a target.
    """
    began = time.monotonic()
    if seed is None:
        seed = digest(policy.axes(), scope.sizes()) if derandomize else random.SystemRandom().randrange(1 << 32)
    judge = Judge if design == "acknowledge" else Decider  # the tables of a Judge assume that design
    shared = design == "acknowledge" and not fair
    session = Session(machine(policy, scope).session.walk if shared else Walk(policy, scope, judge(fair=fair)), target)
    if progress is not None:
        session.progress = lambda s: progress(Progress(s.states, s.examples, len(s.shortest)))
    stopped, came = None, interrupt.count()
    try:
        with interrupt.after(seconds):
            _until_nothing_new(session, seed, examples, database)
    except BaseException as error:
        late = seconds is not None and time.monotonic() - began >= seconds
        noticed = isinstance(error, KeyboardInterrupt) or interrupt.count() > came
        if target is not None or not noticed or not (late or partial):
            raise
        stopped = OUT_OF_TIME if late else INTERRUPTED
        session.walk = Walk(policy, scope, judge(QUICK, fair=fair))
    findings = [_finding(session, verdict, certify and not stopped) for verdict in sorted(session.shortest)]
    wanted = expected(policy, scope, design)
    seen = Counter({name: session.seen[name] for name in WITNESSES})
    for finding in findings:
        seen.update(_afterwards(policy, scope, finding))
    return HuntResult(
        policy,
        scope,
        tuple(findings),
        session.unknown,
        seed,
        session.examples,
        session.states,
        session.steps,
        time.monotonic() - began,
        dict(seen),
        tuple(name for name in WITNESSES if name in wanted and not seen[name]),
        stopped,
    )


def doubts(result: HuntResult) -> list[str]:
    """Return why finding nothing says nothing, a sentence each; nothing for a hunt that was stopped, which says so."""
    if result.stopped:
        return []
    return [UNDECIDED] * result.unknown + ([vacuous(result.missing)] if result.missing else [])


def vacuous(missing: Iterable[str]) -> str:
    """Return what it means that a hunt did not see these witnesses, and what to do."""
    never = "; ".join(f"{name} ({WITNESSES[name]})" for name in missing)
    return f"vacuous: no history saw {never}. Finding nothing says nothing then: use more examples or a larger scope"


def _until_nothing_new(session: Session, seed: int, examples: int, database: ExampleDatabase | None) -> None:
    policy, scope = session.walk.policy, session.walk.scope
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps(scope),
        database=database,
        derandomize=False,
        deadline=None,
        phases=(Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    for number in count():
        session.known = set(session.shortest)
        kind = seeded(digest(seed, number))(with_session(policy, scope, session))
        try:
            run_state_machine_as_test(kind, settings=chosen)
        except* Finding:
            pass  # the session has it
        except* (TargetStopped, Flaky):
            if session.target is None:
                raise
            session.stopped = session.stopped or TargetError(
                "the target did not do the same twice: it cannot be hunted on"
            )
        if session.stopped is not None:
            raise session.stopped from None
        if session.known == set(session.shortest):
            return


def _finding(session: Session, verdict: Verdict, certify: bool) -> HuntFinding:
    walk, events = session.walk, session.shortest[verdict]
    if verdict.property == DIVERGED and session.target is not None:
        found = shrink_on(session.target, walk.policy, walk.scope, verdict, events)
        return HuntFinding(verdict, found.events, diverged=found.divergence)
    events = shrink(walk, verdict, events)
    if not certify:
        return HuntFinding(verdict, events)
    plain, sure = plainest(walk, verdict, len(events))
    if plain is None:
        return HuntFinding(verdict, events)
    return HuntFinding(verdict, plain, len(plain) == len(events) if sure else None, len(plain) if sure else None)


def _afterwards(policy: Policy, scope: Scope, finding: HuntFinding) -> Counter[str]:
    """What is witnessed by what follows a finding when everything goes well: its own history ended there."""
    system = initial(policy, scope)
    for event in finding.events:
        system = step(system, event)
    further = onward(system, snapshot=False)
    found: set[str] = set()
    for before, event, after in zip(further.states, further.events, further.states[1:], strict=False):
        found |= witnesses(before, event, after)
    return Counter(found)


def digest(*parts: object) -> int:
    """Return a seed that these parts decide, the same in every process."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()[:8], "big")
