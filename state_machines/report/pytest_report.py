"""pytest's side of the pictures: the page, the summary in the terminal, JUnit properties, GitHub's job summary.

A plugin module: `pytest_plugin` names it in `pytest_plugins`. A test tells what it found with `record(request.node,
outcome)`; it travels with the test's report, so that it is the same under xdist. `--stranded-report PATH` writes the
page at the end of the run. Nothing that takes time to import is imported before there is something to show.
"""

import os
import re
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import asdict, evolve, frozen

if TYPE_CHECKING:
    from state_machines.trace import Trace

KEY: Final = pytest.StashKey[list["Outcome"]]()
FIELD: Final = "stranded_outcomes"  # of a test's report: what xdist sends to the process that reports
FINDINGS: Final = "stranded-findings"  # the folder, beside the report, of traces that have no file yet
UNRECORDED: Final = (
    "none recorded: verdicts are known for the named policies in the default scope; elsewhere whatever is found fails"
)
COLUMNS: Final = ("policy", "expected", "found", "shortest", "examples", "seconds")


@frozen
class Outcome:
    """What one test found under one policy.

    `expected` and `found` are causes; None for no expectation. `traces` are trace files' objects (`trace.to_json`),
    each with the file that holds it, or an empty name.
    """

    policy: str
    expected: tuple[str, ...] | None
    found: tuple[str, ...]
    examples: int = 0
    seconds: float = 0.0
    traces: tuple[tuple[str, dict[str, Any]], ...] = ()

    def row(self) -> dict[str, str]:
        """Return the outcome as one row of a table of words."""
        lengths = [str(len(trace.get("events", ()))) for _, trace in self.traces]
        expected = "none recorded" if self.expected is None else ", ".join(self.expected) or "none"
        found = ", ".join(self.found) or "none"
        unlike = self.expected is not None and set(self.expected) != set(self.found)
        return {
            "policy": self.policy,
            "expected": expected,
            "found": f"{found} (!)" if unlike else found,
            "shortest": ", ".join(lengths) or "-",
            "examples": f"{self.examples:,}",
            "seconds": f"{self.seconds:.1f}",
        }


def record(item: pytest.Item, outcome: Outcome) -> None:
    """Note what the test `item` found: for the page, the summaries, and as properties of its JUnit case.

    Where a page or a JUnit file is asked for, traces without a file are saved beside it. Raises TraceError.
    """
    outcome = _saved(item.config, outcome)
    item.stash.setdefault(KEY, []).append(outcome)
    item.user_properties.append(("stranded.policy", outcome.policy))
    item.user_properties += [("stranded.cause", cause) for cause in outcome.found]
    item.user_properties += [("stranded.trace", path) for path, _ in outcome.traces if path]


def _saved(config: pytest.Config, outcome: Outcome) -> Outcome:
    """Save the traces that have no file yet, where a report or a JUnit file is to name them."""
    page, junit = config.getoption("--stranded-report", None), config.getoption("--junitxml", None)
    if not (page or junit) or all(path for path, _ in outcome.traces):
        return outcome
    from state_machines.trace import from_data, save

    folder = (config.invocation_params.dir / (page or junit)).parent / FINDINGS
    paths = []
    for path, data in outcome.traces:
        trace = from_data(data)
        words = f"{outcome.policy}-{trace.verdict.word}-{trace.verdict.cause}" if trace.verdict else outcome.policy
        name = re.sub(r"[^\w.-]+", "-", words, flags=re.ASCII)[:120]
        paths.append(path or os.path.relpath(save(folder / f"{name}.json", trace), config.invocation_params.dir))
    return evolve(outcome, traces=tuple((path, data) for path, (_, data) in zip(paths, outcome.traces, strict=True)))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stranded")
    group.addoption("--stranded-report", metavar="PATH", help="write the findings of this run as one page, out.html")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--stranded-report", None)
    if path is not None and Path(path).is_dir():
        raise pytest.UsageError(f"--stranded-report {path} is a folder; name the file to write")
    if not config.pluginmanager.hasplugin("stranded-report"):
        config.pluginmanager.register(Reporter(config), "stranded-report")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and KEY in item.stash:
        setattr(report, FIELD, [_plain(outcome) for outcome in item.stash[KEY]])
    return report


def _plain(outcome: Outcome) -> dict[str, Any]:
    data = asdict(outcome, recurse=False)
    return data | {"expected": None if outcome.expected is None else list(outcome.expected), "found": [*outcome.found]}


def _outcome(data: dict[str, Any]) -> Outcome:
    expected = data["expected"]
    traces = tuple((path, trace) for path, trace in data["traces"])
    return Outcome(
        data["policy"],
        None if expected is None else tuple(expected),
        tuple(data["found"]),
        data["examples"],
        data["seconds"],
        traces,
    )


class Reporter:
    """Collects the outcomes of a run, in the process that reports, and shows them at its end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes: list[Outcome] = []
        self.notes: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.outcomes += [_outcome(data) for data in getattr(report, FIELD, ())]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workerinput"):
            return  # a worker of xdist: the other process has everything
        self.outcomes.sort(key=_order)
        path = self.config.getoption("--stranded-report", None)
        if path is not None:
            self._guarded(session, lambda: self._page(Path(path)))
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary and self.outcomes:
            self._guarded(session, lambda: self._job_summary(Path(summary)))

    def _guarded(self, session: pytest.Session, write: Any) -> None:
        """A report that cannot be written fails the run, in one sentence, and hides none of its results."""
        try:
            write()
        except (OSError, ValueError) as error:
            self.notes.append(f"stranded: {error}")
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _page(self, path: Path) -> None:
        from state_machines.report.html import Source, page
        from state_machines.trace import make_folder_of, write

        sources = [Source(name or "(not saved)", trace) for name, trace in _traces(self.outcomes)]
        rows = [outcome.row() for outcome in self.outcomes]
        make_folder_of(path)
        write(path, page(sources, title="stranded: findings of a pytest run", summary=rows))
        self.notes.append(f"report: {path}")

    def _job_summary(self, path: Path) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(markdown(self.outcomes))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.outcomes:
            terminalreporter.section("stranded")
            for line in table([outcome.row() for outcome in self.outcomes]):
                terminalreporter.line(line)
            if any(outcome.expected is None for outcome in self.outcomes):
                terminalreporter.line(UNRECORDED)
        for note in self.notes:
            terminalreporter.line(note, red=note.startswith("stranded:"))


def table(rows: list[dict[str, str]]) -> list[str]:
    """Return rows as lines of aligned columns, under a line of their names."""
    lines = [list(COLUMNS), *([row[name] for name in COLUMNS] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def markdown(outcomes: Iterable[Outcome]) -> str:
    """Return the job summary of GitHub Actions: a table, and the picture of each finding."""
    from state_machines.replay import replay_trace
    from state_machines.report.text import timeline

    outcomes = list(outcomes)
    lines = ["### stranded", "", _row(COLUMNS), _row("---" for _ in COLUMNS)]
    lines += [_row(_cell(value) for value in outcome.row().values()) for outcome in outcomes]
    for path, trace in _traces(outcomes):
        title = _cell(f"{trace.verdict or 'no finding'} {path}")
        lines += ["", f"<details><summary>{title}</summary>", "", "````text"]
        lines += [timeline(replay_trace(trace)).rstrip().replace("````", ""), "````", "", "</details>"]
    return "\n".join([*lines, "", ""])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Text in a table of GitHub's Markdown, where HTML counts."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("\n", " ")):
        text = text.replace(character, entity)
    return text


def _traces(outcomes: Iterable[Outcome]) -> "list[tuple[str, Trace]]":
    """Every finding of these outcomes, once. Raises TraceError for one that cannot be read."""
    from state_machines.trace import from_data

    found: dict[Trace, str] = {}
    for outcome in outcomes:
        for path, data in outcome.traces:
            found.setdefault(from_data(data), path)
    return [(path, trace) for trace, path in found.items()]


def _order(outcome: Outcome) -> tuple[int, str]:
    """The named policies in their order, then the others by name: the same whoever finished first."""
    from protocol.policy import NAMED

    names = list(NAMED)
    return (names.index(outcome.policy) if outcome.policy in names else len(names), outcome.policy)
