"""The workers of many machines: shards as Ray tasks. A lost worker or node costs its shards a try, never the campaign.

Ray's own retries are off: here a try is counted, bounded and reported, and a shard that is in flight once is kept once.
"""

import logging
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from state_machines.campaign.pool import WORK, Report, describe, load_work
from state_machines.campaign.shard import Shard, outcome_from_json

LOCAL: Final = "local"
AHEAD: Final = 2  # shards handed out per CPU, so that no worker waits for the driver
REACH: Final = 10.0  # seconds to wait for the head node


class RayError(RuntimeError):
    """A cluster that cannot be used, in one sentence."""


def on_ray(
    shards: Iterable[Shard], *, address: str, workers: int | None, retries: int, database: str | None, work: str = WORK
) -> Iterator[Report]:
    """Run shards on the Ray cluster at `address` (`local`: one embedded here) and yield a report for each.

    `workers` limits how many run at a time; None uses every CPU, also those of nodes that come later. A shard that
    raises, or whose worker or node is lost, is tried again `retries` times. Raises RayError.
    """
    import ray

    mine = not ray.is_initialized()
    if mine:
        _connect(ray, address, workers)
    try:
        yield from _run(ray, deque((shard, 0) for shard in shards), workers, retries, database, work)
    finally:
        if mine:
            ray.shutdown()


def reach(address: str) -> None:
    """Raise RayError at once when nothing listens at `host:port`: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACH).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise RayError(f"the Ray cluster {address} cannot be used: {reason}; is its head node up?") from None


def _connect(ray: Any, address: str, workers: int | None) -> None:
    reach(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        quiet |= {"include_dashboard": False, "num_cpus": workers}
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise RayError(f"the Ray cluster {address} cannot be used: {describe(error)}") from None


def _run(
    ray: Any, todo: deque[tuple[Shard, int]], workers: int | None, retries: int, database: str | None, work: str
) -> Iterator[Report]:
    # Spread: the default fills the driver's node first, and a node that is lost takes all that is queued on it.
    task = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(remote_run)
    flying: dict[Any, tuple[Shard, int]] = {}
    while todo or flying:
        room = workers or AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        while todo and len(flying) < room:
            shard, tries = todo.popleft()
            flying[task.remote(shard.to_json(), database, work)] = (shard, tries + 1)
        ready, _ = ray.wait(list(flying), num_returns=len(flying), timeout=0)
        if not ready:
            ready, _ = ray.wait(list(flying), num_returns=1, timeout=5.0)
        for reference in ready:
            shard, tries = flying.pop(reference)
            try:
                text = ray.get(reference)
            except ray.exceptions.RayError as error:
                if tries <= retries:
                    todo.append((shard, tries))
                else:
                    yield Report(shard, tries, None, describe(getattr(error, "cause", None) or error))
            else:
                yield Report(shard, tries, outcome_from_json(text))


def remote_run(text: str, database: str | None, work: str) -> str:
    """What a Ray worker runs: the same function as a process of `pool.local`."""
    return load_work(work)(text, database)
