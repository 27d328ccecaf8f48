"""What a person sees while a campaign runs: shards done, speed, findings by cause, time left."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from protocol.policy import spell
from state_machines.campaign.cells import counted
from state_machines.campaign.pool import Report
from state_machines.campaign.store import Summary


class Board:
    """A live display on a terminal, and nothing at all elsewhere. Call it with each report."""

    def __init__(self, console: Console, before: Summary) -> None:
        self.console = console
        self.examples = self.states = self.given_up = 0
        self.started = time.monotonic()
        self.causes = {(f.policy, f"{f.property} {f.cause}"): f.length for f in before.findings}
        self.bar = Progress(
            TextColumn("shards"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True)
        )
        # The bar starts where this run starts, so that the time left is estimated from this run's own pace.
        self.task = self.bar.add_task("shards", total=before.shards, completed=before.done)
        self.live = Live(self.render(), console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def __call__(self, report: Report) -> None:
        """Count a report and show it."""
        if report.outcome is None:
            self.given_up += 1
        else:
            self.examples += report.outcome.examples
            self.states += report.outcome.states
            for found in report.outcome.findings:
                key = (spell(report.shard.policy), f"{found.property} {found.cause}")
                self.causes[key] = min(found.length, self.causes.get(key, found.length))
            self.bar.advance(self.task)
        if self.console.is_terminal:
            self.live.update(self.render())

    def render(self) -> Group:
        """Return the display: a bar, the speed, and a line for each cause."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        speed = f"{self.examples / seconds:,.0f} examples/s, {self.states / seconds:,.0f} states/s"
        if self.given_up:
            speed += f", {counted(self.given_up, 'shard')} given up"
        lines = [
            Text(f"  {policy}: {words} ({counted(length, 'event')})", style="red", overflow="ellipsis", no_wrap=True)
            for (policy, words), length in sorted(self.causes.items())
        ]
        shown = lines[:20] + ([Text(f"  and {counted(len(lines) - 20, 'more cause')}")] if len(lines) > 20 else [])
        return Group(self.bar, Text(f"{speed}, {counted(len(lines), 'cause')}"), *shown)
