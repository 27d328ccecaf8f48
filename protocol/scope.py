"""The bounds of one exploration: how many of each thing, and a budget for every kind of fault.

Bounds prune ENVIRONMENT and FAULT events only, never SYSTEM ones: a state is not stranded because a budget ran out.
"""

from enum import Enum
from typing import Final

from attrs import fields, frozen


class ScopeError(ValueError):
    """A scope that means nothing, or that no machine could explore."""


class Fault(Enum):
    """Every kind of fault. The value is the name of its budget in `Scope` and of its flag."""

    FAILURE = "failures"
    LOST_REPLY = "lost_replies"
    LOST_REQUEST = "lost_requests"
    LOST_ACKNOWLEDGE = "lost_acknowledges"
    LOST_RECEIPT = "lost_receipts"
    LOST_PREPARE = "lost_prepares"
    LOST_COMMIT = "lost_commits"
    LOST_RESUME = "lost_resumes"
    LOST_RETIRE = "lost_retires"
    DUPLICATE = "duplicates"
    DRAIN_DEATH = "drain_deaths"
    REFUSAL = "refusals"
    DISCONNECT = "disconnects"
    NULL_RESULT = "null_results"
    COMMIT_FAILURE = "commit_failures"
    TRAINER_RESTART = "trainer_restarts"
    GYM_RESTART = "gym_restarts"
    RESTART = "restarts"

    def __init__(self, budget: str) -> None:
        self.position = len(self.__class__.__members__)


FAULTS: Final[dict[str, str]] = {
    "failures": "a run fails: its /run answers 500",
    "lost_replies": "the reply to a /run is lost after Gym has acted",
    "lost_requests": "a /run request is lost before Gym sees it; requests then spend time on the wire",
    "lost_acknowledges": "the request or the reply of a flush is lost; the drain dies with it",
    "lost_receipts": "the GET of a completion receipt fails",
    "lost_prepares": "the request or the reply of a prepare is lost",
    "lost_commits": "the request or the reply of a commit is lost",
    "lost_resumes": "the request or the reply of a resume is lost",
    "lost_retires": "the request or the reply of a retire is lost",
    "duplicates": "the reply to a /run is delivered twice",
    "drain_deaths": "the drain task dies while a snapshot is prepared and a debt is in the outbox",
    "refusals": "a call downstream is refused during a prepare: the run parks without a boundary",
    "disconnects": "the client of a /run goes away while the run is live",
    "null_results": "an execution completes with a null result, which has no receipt",
    "commit_failures": "Gym answers a commit with an error",
    "trainer_restarts": "the trainer restarts from the last published snapshot, Gym goes on",
    "gym_restarts": "Gym restarts and gets its committed boundaries back, the trainer goes on",
    "restarts": "both restart from the last published snapshot",
}
assert list(FAULTS) == [fault.value for fault in Fault]

LIMITS: Final[dict[str, tuple[int, int]]] = {"groups": (1, 8), "siblings": (1, 8), "attempts": (1, 8)}
BUDGET_LIMIT: Final = 9


@frozen(cache_hash=True)
class Scope:
    """How far to look. The default is the scope in which the named policies' verdicts are known."""

    groups: int = 2
    siblings: int = 3
    attempts: int = 2
    snapshots: int = 1
    failures: int = 1
    lost_replies: int = 1
    lost_requests: int = 0
    lost_acknowledges: int = 0
    lost_receipts: int = 0
    lost_prepares: int = 0
    lost_commits: int = 0
    lost_resumes: int = 0
    lost_retires: int = 0
    duplicates: int = 0
    drain_deaths: int = 0
    refusals: int = 0
    disconnects: int = 0
    null_results: int = 0
    commit_failures: int = 0
    trainer_restarts: int = 0
    gym_restarts: int = 0
    restarts: int = 0

    def __attrs_post_init__(self) -> None:
        for field in fields(Scope):
            value = getattr(self, field.name)
            low, high = LIMITS.get(field.name, (0, BUDGET_LIMIT))
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ScopeError(f"{field.name} is {value!r}; it is a whole number from {low} to {high}")

    def budget(self) -> tuple[int, ...]:
        """Return the budget of every fault, in the order of `Fault`."""
        return tuple(getattr(self, fault.value) for fault in Fault)

    def sizes(self) -> dict[str, int]:
        """Return every bound by name, in the order of the fields."""
        return {field.name: getattr(self, field.name) for field in fields(Scope)}


def parse(text: str, base: Scope | None = None) -> Scope:
    """Return the scope that `text` writes: `groups=1,siblings=3,lost_replies=0`. Raises ScopeError."""
    sizes, given = (base or Scope()).sizes(), set()
    for word in (part.strip() for part in text.split(",") if text.strip()):
        name, _, value = word.partition("=")
        if not word:
            raise ScopeError(f"{text!r:.80} has a comma with no bound beside it")
        if name not in sizes:
            raise ScopeError(f"no bound is called {name!r}; the bounds are {', '.join(sizes)}")
        if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) <= 6):
            raise ScopeError(f"{word!r:.80} is not bound=number")
        if name in given:
            raise ScopeError(f"{name} is given twice in {text!r:.80}")
        given.add(name)
        sizes[name] = int(value)
    return Scope(**sizes)
