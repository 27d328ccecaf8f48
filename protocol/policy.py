"""How the two sides behave where they have a choice: a frozen value of independent axes, and names for the known ones.

Each axis is an enum whose values are the words used on the command line, in trace files and in reports:
`granularity=prompt_group,acknowledge=on_arrival`. `AXES` says in one line each what an axis decides and why it exists.
"""

from enum import Enum
from typing import Any, Final

from attrs import evolve, frozen


class Granularity(Enum):
    """What is retried when a sibling fails (trainer.md, "The ledger")."""

    SIBLING = "sibling"
    PROMPT_GROUP = "prompt_group"


class Acknowledge(Enum):
    """When the debt of a result is recorded (trainer.md, "ACK debt"; the review of NeMo-RL #4265)."""

    AT_SEAL = "at_seal"
    ON_ARRIVAL = "on_arrival"


class Late(Enum):
    """What is done with a result that arrives for an attempt already given up."""

    IGNORE = "ignore"
    RAISE = "raise"
    ACKNOWLEDGE = "acknowledge"


class LostReply(Enum):
    """What the trainer does when the answer to `/run` never comes."""

    NEXT_ATTEMPT = "next_attempt"
    SAME_ATTEMPT = "same_attempt"
    FETCH_RECEIPT = "fetch_receipt"


class GiveUp(Enum):
    """What becomes, at Gym, of an attempt that the trainer gives up."""

    LEAVE = "leave"
    RETIRE = "retire"


class Retire(Enum):
    """What Gym's `retire` does with a completed run (gym.md, table)."""

    REFUSE = "refuse"
    RELEASE = "release"


class Reconcile(Enum):
    """Whether the trainer compares its ledger with Gym's `status()` before it prepares."""

    NEVER = "never"
    ACKNOWLEDGE_GIVEN_UP = "acknowledge_given_up"


class Guard(Enum):
    """Whether a configuration that is known to strand is refused before the first group."""

    NONE = "none"
    REFUSE_PROMPT_GROUP = "refuse_prompt_group"


class Drain(Enum):
    """Whether the best-effort drain comes back after an error (trainer.md, "ACK debt")."""

    ONCE = "once"
    RESCHEDULE = "reschedule"


class ResumeRetry(Enum):
    """When a `resume` that was not answered is sent again (trainer.md, "The snapshot", step 6)."""

    NEXT_SNAPSHOT = "next_snapshot"
    AT_ONCE = "at_once"


class Restart(Enum):
    """What a restarted trainer does about a Gym that did not restart with it."""

    FORGET = "forget"
    ADOPT = "adopt"


@frozen(cache_hash=True)
class Policy:
    """One point in the space of behaviours. Every default is the behaviour of NeMo-RL #4265 in `sibling` mode."""

    granularity: Granularity = Granularity.SIBLING
    acknowledge: Acknowledge = Acknowledge.AT_SEAL
    late: Late = Late.IGNORE
    lost_reply: LostReply = LostReply.NEXT_ATTEMPT
    give_up: GiveUp = GiveUp.LEAVE
    retire: Retire = Retire.REFUSE
    reconcile: Reconcile = Reconcile.NEVER
    guard: Guard = Guard.NONE
    drain: Drain = Drain.ONCE
    resume_retry: ResumeRetry = ResumeRetry.NEXT_SNAPSHOT
    restart: Restart = Restart.FORGET

    def axes(self) -> dict[str, str]:
        """Return every axis and its value, as words, in the order of `AXES`."""
        return {name: getattr(self, name).value for name in AXES}

    def with_axes(self, values: dict[str, str]) -> "Policy":
        """Return this policy with some axes changed. Raises PolicyError for an unknown axis or value."""
        changed: dict[str, Any] = {name: _parse(name, value) for name, value in values.items()}
        return evolve(self, **changed)


class PolicyError(ValueError):
    """A policy that cannot be read: the message says which word, and which words there are."""


AXES: Final[dict[str, str]] = {
    "granularity": "what is retried when a sibling fails: the sibling, or the whole prompt group",
    "acknowledge": "when a result's ACK debt is recorded: when it is sealed, or as soon as it arrives",
    "late": "a result that arrives for an attempt already given up: ignored, an error, or acknowledged",
    "lost_reply": "a /run without an answer: the next attempt, the same attempt again, or its receipt is fetched first",
    "give_up": "attempts that the trainer gives up: left at Gym, or retired there",
    "retire": "Gym's retire of a completed run: refused, or it releases the result",
    "reconcile": "before prepare: nothing, or un-ACKed results of given-up attempts are acknowledged",
    "guard": "at start: nothing, or a prompt_group configuration is refused",
    "drain": "after a failed flush the drain: stays dead until new debt, or comes back",
    "resume_retry": "a resume without an answer: sent again with the next snapshot, or at once",
    "restart": "a restarted trainer: assumes a fresh Gym, or adopts what Gym's status shows",
}

_SIBLING: Final = Policy()
_GROUP: Final = Policy(granularity=Granularity.PROMPT_GROUP)
_ON_ARRIVAL: Final = evolve(_GROUP, acknowledge=Acknowledge.ON_ARRIVAL)

NAMED: Final[dict[str, tuple[Policy, str]]] = {
    "sibling": (_SIBLING, "NeMo-RL #4265, sibling mode: each sibling is sealed and acknowledged as it arrives"),
    "prompt_group": (_GROUP, "NeMo-RL #4265, prompt-group mode: all siblings are sealed and acknowledged together"),
    "prompt_group_ack_on_arrival": (
        _ON_ARRIVAL,
        "the repair proposed in the review of #4265: debt at arrival, only the seal stays all-or-nothing",
    ),
    "sibling_repaired": (
        evolve(_SIBLING, late=Late.ACKNOWLEDGE, lost_reply=LostReply.FETCH_RECEIPT),
        "sibling mode that fetches the receipt of a lost reply and acknowledges late results",
    ),
    "prompt_group_repaired": (
        evolve(_ON_ARRIVAL, late=Late.ACKNOWLEDGE, lost_reply=LostReply.FETCH_RECEIPT),
        "the proposed repair, completed: late results and fetched receipts are acknowledged too",
    ),
    "prompt_group_reconciled": (
        evolve(_ON_ARRIVAL, reconcile=Reconcile.ACKNOWLEDGE_GIVEN_UP),
        "the proposed repair, and before each prepare whatever was given up is acknowledged",
    ),
    "prompt_group_refused": (
        evolve(_GROUP, guard=Guard.REFUSE_PROMPT_GROUP),
        "prompt-group mode is refused at start while results are retained",
    ),
}


def named(name: str) -> Policy:
    """Return the policy of that name. Raises PolicyError with the names there are."""
    try:
        return NAMED[name][0]
    except KeyError:
        raise PolicyError(f"no policy is called {name!r}; the named ones are {', '.join(NAMED)}") from None


def parse(text: str) -> Policy:
    """Return the policy that `text` writes: a name, `axis=value` pairs, or a name followed by pairs, by commas.

    `prompt_group,acknowledge=on_arrival` is prompt_group with one axis changed. Raises PolicyError.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise PolicyError("a policy is a name or axis=value pairs, and this one is empty")
    policy = named(words.pop(0)) if "=" not in words[0] else Policy()
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise PolicyError(f"{word!r} in policy {text!r} is not axis=value")
        if name in values:
            raise PolicyError(f"axis {name!r} is given twice in policy {text!r}")
        values[name] = value
    return policy.with_axes(values)


def spell(policy: Policy) -> str:
    """Return the shortest text that `parse` reads as `policy`: its name, or the nearest name and what differs."""
    for name, (candidate, _) in NAMED.items():
        if candidate == policy:
            return name
    base = named(policy.granularity.value)
    changed = {k: v for k, v in policy.axes().items() if v != base.axes()[k]}
    return ",".join([policy.granularity.value, *(f"{k}={v}" for k, v in changed.items())])


def _parse(name: str, value: str) -> Enum:
    if name not in AXES:
        raise PolicyError(f"no policy axis is called {name!r}; the axes are {', '.join(AXES)}")
    axis: type[Enum] = type(getattr(Policy(), name))
    try:
        return axis(value)
    except ValueError:
        values = ", ".join(member.value for member in axis)
        raise PolicyError(f"{name}={value} is not a policy: {name} is one of {values}") from None
