"""Gym alone, operation by operation: every operation on every Gym that few of them lead to, with all that it answers.

The policies' scopes (`test_graphs.py`) meet a part of it only: one prepare at a time, one restore, and nobody who asks
out of turn. After a change that is meant, `python -m tests.protocol.test_graph_of_gym` prints the numbers anew.
"""

import hashlib
from collections.abc import Callable, Iterator

from protocol import gym as g
from protocol.fence import Reply
from protocol.gym import Gym, Outcome, RunAnswer
from protocol.identity import Attempt, model_receipt
from state_machines.designs import design

A, A1, B = Attempt("p0_g0", 0), Attempt("p0_g0", 1), Attempt("p0_g1", 0)
STATES = 500  # the Gyms that are asked

ON_ATTEMPTS: dict[str, Callable[[Gym, Attempt], Outcome]] = {
    "begin": g.begin,
    "finish": lambda gym, a: g.finish(gym, a, model_receipt(a)),
    "boundary": g.commit_boundary,
    "park": g.park,
    "fail": g.fail,
    "lose_client": g.lose_client,
    "null_result": lambda gym, a: g.finish(gym, a, None),
    "old boundary": lambda gym, a: g.commit_boundary(gym, a, 0),
    "acknowledge": lambda gym, a: g.acknowledge(gym, (model_receipt(a),)),
    "receipt": g.completion_receipt,
    "retire": lambda gym, a: g.retire(gym, "c1", a),
    "free": lambda gym, a: g.retire(gym, "c0", a, release=True),
}
ON_IDS: dict[str, Callable[[Gym, str], Outcome]] = {
    "prepare": g.prepare,
    "late prepare": lambda gym, c: g.prepare(gym, c, expired=True),
    "commit": g.commit,
    "resume": g.resume,
    "restore": lambda gym, c: g.restore(gym, c, ((A, 2), (B, 0))),
}
ON_GYM: dict[str, Callable[[Gym], Outcome]] = {
    "expire": g.expire,
    "lose_prepare": g.lose_prepare,
    "restart": g.restart,
    "acknowledge both": lambda gym: g.acknowledge(gym, (model_receipt(B), model_receipt(A))),
}


def asked(gym: Gym) -> Iterator[tuple[str, Outcome]]:
    """Yield every operation on `gym`, by name, and what it leads to."""
    for name, operation in ON_GYM.items():
        yield name, operation(gym)
    for name, on_id in ON_IDS.items():
        for checkpoint in ("c0", "c1"):
            yield f"{name} {checkpoint}", on_id(gym, checkpoint)
    for name, on_attempt in ON_ATTEMPTS.items():
        for attempt in (A, A1, B):
            yield f"{name} {attempt}", on_attempt(gym, attempt)


def told() -> Iterator[str]:
    """Yield what each operation answers, and the status report that follows."""
    seen, queue = {Gym()}, [Gym()]
    for number in range(STATES):
        gym = queue.pop(number * 7919 % len(queue))  # near and far from the empty one
        for name, outcome in asked(gym):
            replies = [reply.json() for reply in (outcome.reply, outcome.prepared) if isinstance(reply, Reply)]
            yield f"{name}: {outcome} {replies} {g.status(outcome.gym)}"
            if outcome.gym not in seen:
                seen.add(outcome.gym)
                queue.append(outcome.gym)


def fingerprint() -> str:
    seen = hashlib.sha256()
    for text in told():
        seen.update(text.encode())
    return seen.hexdigest()[:16]


def test_every_operation_on_every_gym_answers_as_recorded():
    assert fingerprint() == "3bc33229462b2b4c"


def test_under_the_lease_retire_ends_the_open_calls_of_this_and_every_earlier_attempt():
    with design("lease"):
        gym = g.begin(g.begin(Gym(), A).gym, A1).gym
        after = g.retire(gym, "c0", A1)
    assert after == Outcome(Gym(tombstones=(A, A1)), Reply(200), tuple(RunAnswer(a, 0, "cancelled") for a in (A, A1)))


if __name__ == "__main__":
    print(fingerprint())
