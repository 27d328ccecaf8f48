"""What is between the two sides: `/run` requests on their way to Gym and answers on their way back.

A `/run` lasts as long as the run, so its answer is a thing of its own: it can be overtaken by the answers of other
runs, lost after Gym has acted, or delivered twice. The other calls answer at once. They are one step each, at the
moment in which Gym acts; losing the request or the reply of one is another event that takes the step's place. Between
the two moments nothing else in the model could tell the difference.
"""

from enum import Enum
from functools import lru_cache
from typing import Final

from attrs import frozen

from protocol.identity import Attempt


class Call(Enum):
    """The calls of the hand-over (gym.md, "HTTP")."""

    RUN = "run"
    ACKNOWLEDGE = "acknowledge"
    RECEIPT = "receipt"
    PREPARE = "prepare"
    COMMIT = "commit"
    RESUME = "resume"
    RETIRE = "retire"


class Kind(Enum):
    """What a message about a `/run` is."""

    REQUEST = "request"  # on its way to Gym
    RESULT = "result"  # 200: the attempt finished
    NULL = "null"  # 200 with a null result, for which there is no receipt (gym.md)
    FAILURE = "failure"  # 500: the run failed or was retired at Gym
    REFUSED = "refused"  # 409: Gym did not begin
    LOST = "lost"  # a transport error: the request or the reply is gone, and the trainer cannot tell which


REPLIES: Final = frozenset(Kind) - {Kind.REQUEST}


@frozen(order=False, cache_hash=True)
class Message:
    """One message of one attempt. `copies` is 2 while the network holds a second copy of it."""

    attempt: Attempt
    kind: Kind
    copies: int = 1


@frozen(cache_hash=True)
class Wire:
    """The messages in flight, at most one an attempt, in the order of their attempts."""

    messages: tuple[Message, ...] = ()

    def find(self, attempt: Attempt) -> Message | None:
        return next((m for m in self.messages if m.attempt == attempt), None)

    def put(self, attempt: Attempt, kind: Kind, copies: int = 1) -> "Wire":
        """Return the wire with this message in the place of any other of the same attempt."""
        kept = [m for m in self.messages if m.attempt != attempt]
        kept.append(message(attempt, kind, copies))
        kept.sort(key=_attempt)
        return Wire(tuple(kept))

    def take(self, attempt: Attempt) -> "Wire":
        """Return the wire with one copy of the attempt's message less."""
        found = self.find(attempt)
        if found is not None and found.copies > 1:
            return self.put(attempt, found.kind, found.copies - 1)
        return Wire(tuple(m for m in self.messages if m.attempt != attempt))


@lru_cache(maxsize=4096)
def message(attempt: Attempt, kind: Kind, copies: int = 1) -> Message:
    return Message(attempt, kind, copies)


def _attempt(m: Message) -> Attempt:
    return m.attempt
