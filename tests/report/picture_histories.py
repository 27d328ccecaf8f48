"""Histories that the tests of the pictures share, written as people write them: events with bars between them."""

from protocol import Policy, Scope
from protocol import policy as policies
from protocol.events import Event, from_json
from state_machines.replay import Replay, replay
from state_machines.trace import Trace

HISTORIES = {
    "stranded": ("prompt_group", "admit 0 | finish p0_g0/0 | fail p0_g1/0"),
    "blocked": ("prompt_group", "admit 0 | finish p0_g0/0 | snapshot | prepare | boundary p0_g1/0"),
    "lost": ("sibling", "admit 0 | finish p0_g1/0 | lose_reply run p0_g1/0"),
    "clean": (
        "sibling",
        """admit 0 | finish p0_g0/0 | snapshot | deliver p0_g0/0 | flush | prepare | boundary p0_g1/0 |
        boundary p0_g2/0 | answer | commit | publish | resume""",
    ),
    "long": (
        "prompt_group",
        """admit 0 | finish p0_g0/0 | deliver p0_g0/0 | admit 1 | fail p0_g1/0 | deliver p0_g1/0 | finish p0_g0/1 |
        deliver p0_g0/1 | finish p0_g1/1 | finish p0_g2/1 | deliver p0_g1/1 | deliver p0_g2/1 | flush | snapshot |
        finalize 0 | prepare | boundary p1_g0/0 | boundary p1_g1/0 | boundary p1_g2/0 | boundary p0_g2/0 | answer |
        prepare | answer | deadline | resume""",
    ),
}


def events(text: str) -> tuple[Event, ...]:
    """Return the events of `admit 0 | finish p0_g0/0 | lose_reply run p0_g1/0`."""
    return tuple(_event(part.split()) for part in text.split("|") if part.strip())


def _event(words: list[str]) -> Event:
    name, *rest = words
    data: dict[str, object] = {"event": name}
    if name in ("admit", "finalize"):
        data["group"] = int(rest[0])
    elif name.startswith("lose_"):
        data["call"] = rest[0]
        data |= {"attempt": rest[1]} if len(rest) > 1 else {}
    elif rest:
        data["attempt"] = rest[0]
    return from_json(data)


def run(name: str) -> Replay:
    """Return one of the histories, replayed."""
    policy, text = HISTORIES[name]
    return replay(policies.parse(policy), Scope(), events(text))


def trace(name: str, policy: Policy | None = None) -> Trace:
    """Return one of the histories as a trace, with its verdict."""
    found = run(name)
    return Trace(policy or found.policy, found.scope, found.events, found.verdict, {"how": "hand", "seed": 7})
