"""The suite of `pytest --policy NAME --replay FILE`: a TestCase for every policy, a test for every file.

A policy passes when exactly its known verdicts are found, each with its shortest length (`expected`); one whose
verdicts are not known passes when nothing is found. A hunt that could not decide a state, or is vacuous, fails.
"""

import unittest
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from protocol.policy import Policy, spell
from protocol.scope import Scope
from state_machines import pytest_plugin
from state_machines import witness as w
from state_machines.expected import expected
from state_machines.hunt import UNDECIDED, HuntResult, digest, doubts, hunt, vacuous
from state_machines.machine import Session, machine, machine_name, steps, with_session
from state_machines.recovery import Unknown
from state_machines.replay import replay, replay_trace, told
from state_machines.report.pytest_report import Outcome, record
from state_machines.report.text import timeline
from state_machines.trace import Trace, TraceError, found_by, to_json
from state_machines.verdict import Finding, Verdict

CHOSEN = pytest_plugin.chosen()


class Hunts(unittest.TestCase):
    """What the TestCases of all policies share."""

    policy: Policy
    scope: Scope

    @pytest.fixture(autouse=True)
    def _own_item(self, request: pytest.FixtureRequest) -> None:
        self.item = request.node

    def check(self, seed: int) -> None:
        """Hunt, and compare what is found with what is known."""
        result = hunt(self.policy, self.scope, seed=seed, examples=CHOSEN.examples)
        known = expected(self.policy, self.scope)
        record(self.item, outcome(result, known))
        problems = complaints(result, known or {})
        if problems:
            pytest.fail("\n".join([f"{spell(self.policy)}, seed {seed}:", *problems]), pytrace=False)

    def show(self) -> None:
        """Run the machine as Hypothesis runs any other: its own report, its own shrinking."""
        session = Session(machine(self.policy, self.scope).session.walk)
        chosen = settings(
            deadline=None,
            max_examples=CHOSEN.examples,
            stateful_step_count=steps(self.scope),
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),  # the lines of a model explain nothing
            print_blob=True,
        )
        try:
            run_state_machine_as_test(with_session(self.policy, self.scope, session), settings=chosen)
        except (Finding, ExceptionGroup) as error:
            error.add_note(where_to_reproduce(self.policy, self.scope))
            raise
        missing = [name for name in w.WITNESSES if name in w.expected(self.policy, self.scope) - set(session.seen)]
        if session.unknown:
            pytest.fail(UNDECIDED, pytrace=False)
        if missing:
            pytest.fail(vacuous(missing), pytrace=False)

    show.is_hypothesis_test = True  # type: ignore[attr-defined]


def complaints(result: HuntResult, known: dict[Verdict, int]) -> list[str]:
    """Return what differs between a hunt and the known verdicts with their shortest lengths."""
    found = {finding.verdict: finding for finding in result.findings}
    lines = [
        f"missing: {verdict}, which a history of {known[verdict]} events shows"
        for verdict in known
        if verdict not in found
    ]
    for verdict, finding in found.items():
        length = len(finding.events)
        if verdict not in known:
            lines += [f"new: {verdict}", timeline(replay(result.policy, result.scope, finding.events))]
        elif length != known[verdict]:
            lines.append(f"length: {verdict} takes {length} events, known is {known[verdict]}")
    return lines + doubts(result)


def outcome(result: HuntResult, known: dict[Verdict, int] | None) -> Outcome:
    """Return a hunt's result as the reports want it."""
    who = found_by(result.seed, "pytest")
    traces = [Trace(result.policy, result.scope, f.events, f.verdict, who) for f in result.findings]
    return Outcome(
        spell(result.policy),
        None if known is None else tuple(verdict.cause for verdict in sorted(known)),
        tuple(finding.verdict.cause for finding in result.findings),
        result.examples,
        result.seconds,
        tuple(("", to_json(trace)) for trace in traces),
    )


def where_to_reproduce(policy: Policy, scope: Scope) -> str:
    """Return what Hypothesis' `@reproduce_failure` is to be put on."""
    sizes = {name: size for name, size in scope.sizes().items() if size != Scope().sizes()[name]}
    arguments = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return (
        "A @reproduce_failure(…) decorates the state machine, in a test module of yours:\n"
        "    from hypothesis import reproduce_failure\n"
        "    from protocol.policy import parse\n"
        "    from protocol.scope import Scope\n"
        "    from state_machines.machine import machine\n"
        f"    Machine = reproduce_failure(…)(machine(parse({spell(policy)!r}), Scope({arguments})))\n"
        "    Test = Machine.TestCase"
    )


def case_of(policy: Policy, scope: Scope, *, raw: bool, hunts: int, seed: int) -> type[Hunts]:
    """Return the TestCase of a policy. Its name is the policy's, so that no two share seeds or statistics."""

    def one(number: int) -> Any:
        def test(self: Hunts) -> None:
            self.check(digest(seed, number) if number else seed)

        return test

    body: dict[str, Any] = {"policy": policy, "scope": scope, "__module__": __name__}
    if raw:
        body["test_hunt"] = Hunts.show
    else:
        for number in range(hunts):
            name = "test_exactly_the_known_causes_are_found" + (f"_{number}" if number else "")
            body[name] = one(number)
    return type(f"Test{machine_name(policy, scope)}", (Hunts,), body)


for _policy in CHOSEN.policies:
    _made = case_of(_policy, CHOSEN.scope, raw=CHOSEN.raw, hunts=CHOSEN.hunts, seed=CHOSEN.seed)
    globals()[_made.__name__] = _made
    del _made

if CHOSEN.replays:

    @pytest.mark.parametrize(("path", "trace"), CHOSEN.replays, ids=[path for path, _ in CHOSEN.replays])
    def test_the_recorded_verdict_comes_out_again(path: str, trace: Trace, request: pytest.FixtureRequest) -> None:
        try:
            run = replay_trace(trace)
        except (TraceError, Unknown) as error:
            pytest.fail(f"{path}: {error}", pytrace=False)
        causes = tuple([run.verdict.cause] if run.verdict else [])
        recorded = tuple([trace.verdict.cause] if trace.verdict else [])
        again = Trace(run.policy, run.scope, run.events, run.verdict, trace.found_by)
        record(request.node, Outcome(spell(run.policy), recorded, causes, traces=((path, to_json(again)),)))
        if run.verdict != trace.verdict:
            pytest.fail(f"{path}: {told(run, trace, run.verdict)}\n{timeline(run)}", pytrace=False)
