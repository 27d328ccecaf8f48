"""Every property of one scope, fairness too, decided over real systems: for small scopes, and for other designs of Gym.

`prove` reads tables that assume the acknowledging design, and does not decide fairness. This is the search of
`state_machines.search`, which assumes nothing, with the bounds, the progress and the result of a proof.
"""

import time

from protocol.policy import Policy
from protocol.scope import Scope
from state_machines.explore import Watcher
from state_machines.prove import Bounds, Proof, Shortest, Stopped
from state_machines.recovery import Unknown
from state_machines.resources import available, memory
from state_machines.search import search

UNBOUNDED = 1 << 62


def prove_plainly(
    policy: Policy, scope: Scope, bounds: Bounds, *, watch: Watcher | None = None, fair: bool = True
) -> Proof:
    """Return what holds for `policy` in `scope`. An interruption or a bound ends it with what is known by then.

    With `fair`, `Property.FAIR` is decided too. An unfair state does not end a history.
    """
    started = time.perf_counter()
    enough = memory() + available() if bounds.max_memory is None else bounds.max_memory << 20
    proof = Proof(policy, scope, closed=None, fair=fair)

    def look(*, states: int, transitions: int, depth: int, recoveries: int = 0) -> None:
        proof.states, proof.transitions, proof.depth = states, transitions, depth
        if watch is not None:
            watch(states=states, transitions=transitions, depth=depth)
        if memory() > enough:
            raise Stopped(f"more than {enough >> 20:,} MiB of memory")

    try:
        for found in search(policy, scope, limit=bounds.max_states or UNBOUNDED, fair=fair, watch=look):
            proof.findings = (*proof.findings, Shortest(found.verdict, found.events))
        proof.exhaustive = True
    except KeyboardInterrupt:
        proof.stopped = "interrupted"
    except MemoryError:
        proof.stopped = "out of memory"
    except (Stopped, Unknown) as error:
        proof.stopped = str(error)
    proof.seconds, proof.peak_memory = time.perf_counter() - started, memory(peak=True)
    return proof
