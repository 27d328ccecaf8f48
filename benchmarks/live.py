"""Events a second on the HTTP target, against the model and against bare `httpx` round trips to the same server.

    python benchmarks/live.py [--rounds 5] [--histories 15]

Each round takes the three one after the other, so that a busy machine slows all of them; the medians of the rounds are
printed, with the smallest and the largest. A bare round trip is a GET of `status` by a kept `httpx.Client`.
"""

import argparse
import json
import random
import statistics
import time
from contextlib import closing

import httpx

from protocol.events import Event
from protocol.policy import Policy, named, spell
from protocol.scope import Scope
from protocol.system import enabled, initial, step
from state_machines.targets import ModelTarget, Target, follow
from state_machines.targets.http import HttpTarget
from state_machines.targets.process import ReferenceGym

STATUS = "/ng-control/v1/agent-checkpoint/status?checkpoint_id=c0"
TRIPS = 400


def history(policy: Policy, seed: int) -> tuple[Event, ...]:
    chance, system, events = random.Random(seed), initial(policy, Scope()), []
    for _ in range(40):
        possible = enabled(system)
        if not possible:
            break
        events.append(chance.choice(possible))
        system = step(system, events[-1])
    return tuple(events)


def events_a_second(target: Target, policy: Policy, histories: list[tuple[Event, ...]]) -> float:
    began = time.perf_counter()
    for events in histories:
        assert follow(target, policy, Scope(), events) is None
    return sum(map(len, histories)) / (time.perf_counter() - began)


def trips_a_second(client: httpx.Client) -> float:
    began = time.perf_counter()
    for _ in range(TRIPS):
        client.get(STATUS).raise_for_status()
    return TRIPS / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--histories", type=int, default=15)
    parser.add_argument("--policy", default="prompt_group_repaired")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    policy = named(asked.policy)
    histories = [history(policy, seed) for seed in range(asked.histories)]
    gym = ReferenceGym()
    headers = {"authorization": f"Bearer {gym.token}"}
    rounds: list[dict[str, float]] = []
    with (
        closing(HttpTarget(gym.url, gym.token, owned=gym)) as target,
        httpx.Client(base_url=gym.url, headers=headers, trust_env=False) as client,
    ):
        events_a_second(target, policy, histories[:3])  # imports and connections
        trips_a_second(client)
        for _ in range(asked.rounds):
            model = events_a_second(ModelTarget(), policy, histories)
            trips = trips_a_second(client)
            http = events_a_second(target, policy, histories)
            trips = (trips + trips_a_second(client)) / 2
            rounds.append(
                {"http": http, "model": model, "trips": trips, "http/model": http / model, "http/trips": http / trips}
            )
    if asked.json:
        print(json.dumps({"policy": spell(policy), "events": sum(map(len, histories)), "rounds": rounds}, indent=1))
        return
    print(f"{spell(policy)}, {len(histories)} histories, {sum(map(len, histories))} events, {asked.rounds} rounds")
    for name, text in (
        ("model", "events/s on the model as a target"),
        ("http", "events/s on the HTTP target"),
        ("trips", "bare httpx round trips/s"),
        ("http/model", "HTTP target / model"),
        ("http/trips", "HTTP target / bare round trips (aim: 0.5)"),
    ):
        values = [r[name] for r in rounds]
        print(f"{text:45} {statistics.median(values):9.3g}   {min(values):.3g} to {max(values):.3g}")


if __name__ == "__main__":
    main()
