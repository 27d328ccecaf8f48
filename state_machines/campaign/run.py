"""Running a campaign: what is left of a plan goes to a runner, and each report into the store as it comes.

The runner is any generator of reports: processes of this machine (`pool.local`) or Ray (`ray_runner`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from state_machines.campaign.pool import Report
from state_machines.campaign.shard import Shard
from state_machines.campaign.store import Store, Summary

Runner = Callable[[Sequence[Shard]], Iterator[Report]]


def left(store: Store) -> tuple[Shard, ...]:
    """Return the shards of a store's plan that are not done, in their order."""
    done = store.done()
    return tuple(shard for shard in store.plan().shards() if shard.key not in done)


def run(store: Store, runner: Runner, progress: Callable[[Report], Any] | None = None) -> Summary:
    """Run what is left and return what the whole campaign has done.

    Every shard is kept as soon as it is reported; `progress` is called after that. A shard whose every try failed is
    kept as given up. When the store cannot be written the workers end and StoreError passes.
    """
    shards = left(store)
    if shards:
        with closing(runner(shards)) as reports:  # type: ignore[type-var]
            for report in reports:
                if report.outcome is None:
                    store.give_up(report.shard, report.tries, report.error)
                else:
                    store.put(report.shard, report.outcome)
                if progress is not None:
                    progress(report)
    return store.summary()
