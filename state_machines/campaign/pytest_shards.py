"""A campaign as pytest runs it: `pytest --campaign PLAN.toml -n auto` has one test for each shard that is left.

pytest-xdist gives the tests to its workers (`--dist worksteal`, unless another is asked for); only the controlling
process opens the store, and keeps each shard as its test is reported. A test fails when its shard has findings or met
what it could not decide; the summary says what is known of each policy and scope. Shards of earlier runs count: what
they found is not forgotten because the rest passes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from state_machines import database as databases
from state_machines.campaign import plan as plans
from state_machines.campaign import pool
from state_machines.campaign.cells import counted, undecided
from state_machines.campaign.plan import Plan
from state_machines.campaign.run import left
from state_machines.campaign.shard import MODEL, Outcome, Shard, outcome_from_json
from state_machines.campaign.store import Store, StoreError, Summary, all_done, create, totals
from state_machines.verdict import Verdict

ATTRIBUTE: Final = "stranded_outcome"
INPUT: Final = "stranded_campaign"


def register(config: pytest.Config) -> None:
    """Register the campaign that `--campaign` names. Raises pytest.UsageError for one that cannot be used."""
    path = Path(config.getoption("--campaign")).absolute()
    given = getattr(config, "workerinput", {}).get(INPUT)
    try:
        campaign: Campaign = _Worker(path, config, given) if given else _Controller(path, config)
    except (plans.PlanError, StoreError, databases.DatabaseError) as error:
        raise pytest.UsageError(str(error)) from None
    config.args = [str(path)]
    if getattr(config.option, "dist", "no") == "load":  # xdist's default cuts the list into fixed parts
        config.option.dist = "worksteal"
    config.pluginmanager.register(campaign, "stranded-campaign")


class Campaign:
    """The shards that are left, as tests. In an xdist worker this is all there is."""

    def __init__(self, path: Path, shards: tuple[Shard, ...], database: str) -> None:
        self.path, self.shards, self.database = path, shards, database

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path != self.path:
            return None
        file: PlanFile = PlanFile.from_parent(parent, path=file_path)
        file.campaign = self
        return file

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Any:
        report: Any = yield
        if call.when == "call" and isinstance(item, ShardItem) and item.outcome is not None:
            setattr(report, ATTRIBUTE, item.outcome)
        return report


class _Worker(Campaign):
    """The campaign in an xdist worker: its shards come from the controller, so that all collect the same tests."""

    def __init__(self, path: Path, config: pytest.Config, given: str) -> None:
        data = json.loads(given)
        done = set(data["done"])
        shards = tuple(shard for shard in plans.from_json(data["plan"]).shards() if shard.number not in done)
        super().__init__(path, shards, config.getoption("--campaign-database"))


class _Controller(Campaign):
    """The campaign in pytest's own process: it opens the store and keeps what comes."""

    def __init__(self, path: Path, config: pytest.Config) -> None:
        plan = plans.load(path)
        self.store: Store = create(Path(config.getoption("--campaign-store") or path.with_suffix(".sqlite")), plan)
        try:
            self.plan: Plan = self.store.plan()
            self.before: Summary = self.store.summary()
            databases.check(config.getoption("--campaign-database"))
        except BaseException:
            self.store.close()
            raise
        super().__init__(path, left(self.store), config.getoption("--campaign-database"))
        self.error = ""
        self.by_id: dict[str, Shard] = {}

    def pytest_report_header(self) -> str:
        todo = len(self.shards)
        if not todo:
            return f"campaign: {self.plan.name}, {all_done(self.before)}; nothing to do"
        going_on = f", going on: {self.before.done} are done" if self.before.done else ""
        shards = counted(self.before.shards, "shard")
        return f"campaign: {self.plan.name}, {shards}{going_on}, kept in {self.store.path}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        left_numbers = {shard.number for shard in self.shards}
        done = [number for number in range(self.before.shards) if number not in left_numbers]
        node.workerinput[INPUT] = json.dumps({"plan": self.plan.to_json(), "done": done})

    def pytest_runtest_logreport(self, report: Any) -> None:
        text = getattr(report, ATTRIBUTE, None)
        if text is None or self.error:
            return
        outcome = outcome_from_json(text)
        shard = self._shard(outcome)
        try:
            self.store.put(shard, outcome)
        except StoreError as error:
            self.error = str(error)
            pytest.exit(str(error), returncode=2)

    def _shard(self, outcome: Outcome) -> Shard:
        if not self.by_id:
            self.by_id = {shard.key: shard for shard in self.shards}
        return self.by_id[outcome.key]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        nothing_to_do = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self.shards
        if nothing_to_do or exitstatus == pytest.ExitCode.OK:
            failed = self.before.findings or self.before.unknown
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        summary = self.store.summary()
        terminalreporter.section(f"campaign {self.plan.name}")
        terminalreporter.write_line(f"{totals(summary)}; results in {self.store.path}")
        for cell in self.store.cells():
            where = "" if cell.target == MODEL else f", {cell.target}"
            terminalreporter.write_line(f"  {cell.mode} {cell.policy}, {cell.scope}{where}: {'; '.join(cell.lines())}")
        if self.before.findings or self.before.unknown:
            what = "findings" if self.before.findings else "what is unknown"
            terminalreporter.write_line(f"{what} of earlier runs: kept in the store, and this run fails for it")
        if not summary.finished:
            terminalreporter.write_line("not finished; the same command goes on from there")

    def pytest_unconfigure(self) -> None:
        self.store.close()


class PlanFile(pytest.File):
    """A plan's file, collected as its shards."""

    campaign: Campaign

    def collect(self) -> Iterator[pytest.Item]:
        for shard in self.campaign.shards:
            item: ShardItem = ShardItem.from_parent(self, name=shard.title)
            item.shard, item.database = shard, self.campaign.database
            yield item


class ShardItem(pytest.Item):
    """One shard. It fails when the shard has findings, and when something in it is unknown."""

    shard: Shard
    database: str
    outcome: str | None = None

    def runtest(self) -> None:
        self.outcome = pool.load_work(pool.WORK)(self.shard.to_json(), self.database)
        outcome = outcome_from_json(self.outcome)
        if outcome.findings or outcome.unknown:
            raise ShardFailed(self.shard, outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, ShardFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class ShardFailed(AssertionError):
    """A shard with findings, a line for each, or with something that was not decided."""

    def __init__(self, shard: Shard, outcome: Outcome) -> None:
        lines = [f"{Verdict(f.property, f.cause)} after {counted(f.length, 'event')}" for f in outcome.findings]
        super().__init__("\n".join([*lines, *([undecided(shard.mode, outcome.reason)] if outcome.unknown else [])]))
