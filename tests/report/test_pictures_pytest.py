"""What a pytest run says about its findings: the page, also under xdist, the summaries, JUnit."""

import re
import xml.etree.ElementTree as ET

import pytest

from state_machines.trace import load

pytest_plugins = ["pytester"]

SUITE = """
import pytest
from picture_histories import trace
from state_machines.report.pytest_report import Outcome, record
from state_machines.trace import to_json

@pytest.mark.parametrize(("policy", "expected", "names"), [
    ("sibling", ("lost_reply",), ("lost",)),
    ("prompt_group", ("abandoned_result", "late_result"), ("stranded", "blocked")),
    ("prompt_group_reconciled", (), ()),
])
def test_policy(request, policy, expected, names):
    traces = [trace(name) for name in names]
    record(request.node, Outcome(
        policy, expected, tuple(t.verdict.cause for t in traces), 500, 1.25,
        tuple((f"found/{name}.json" if name == "blocked" else "", to_json(t)) for name, t in zip(names, traces)),
    ))
    assert policy != "prompt_group"
"""


@pytest.fixture
def suite(pytester, monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    pytester.makepyfile(test_suite=SUITE)
    return pytester


def run(suite, *arguments):
    loaded = () if "state_machines.report.pytest_report" in registered(suite) else ("-p", REPORT)
    return suite.runpytest_subprocess("-p", "no:cacheprovider", *loaded, *arguments)


REPORT = "state_machines.report.pytest_report"


def registered(suite):
    """Whether stranded's own plugin names the report's: then it must not be named again."""
    import state_machines.pytest_plugin as plugin

    return getattr(plugin, "pytest_plugins", ())


@pytest.mark.slow
def test_a_run_under_xdist_writes_the_page_the_summaries_and_the_properties(suite, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.path / "summary.md"))
    done = run(suite, "-n", "2", "--stranded-report", "out.html", "--junitxml", "junit.xml")
    assert done.ret == 1
    text = done.stdout.str()
    section = text[text.index("= stranded =") :]
    assert re.search(r"policy +expected +found +shortest +examples +seconds", section)
    assert re.search(r"sibling +lost_reply +lost_reply +3 +500 +1\.2", section)
    assert re.search(
        r"prompt_group +abandoned_result, late_result +abandoned_result, partial_group \(!\) +3, 5", section
    )
    assert re.search(r"prompt_group_reconciled +none +none +- ", section)
    assert section.index("sibling ") < section.index("prompt_group ")
    assert "report: out.html" in section

    page = (suite.path / "out.html").read_text()
    assert page.count('<section class="finding"') == 3
    assert "found/blocked.json" in page
    assert "The run, by policy" in page

    cases = ET.parse(suite.path / "junit.xml").getroot().iter("testcase")
    properties = {case.get("name"): [(p.get("name"), p.get("value")) for p in case.iter("property")] for case in cases}
    (found,) = (value for name, value in properties.items() if "prompt_group-" in name)
    assert ("stranded.policy", "prompt_group") in found
    assert ("stranded.cause", "partial_group") in found
    saved = "stranded-findings/prompt_group-stranded-abandoned_result.json"
    assert [value for name, value in found if name == "stranded.trace"] == [saved, "found/blocked.json"]
    assert load(suite.path / saved).verdict.cause == "abandoned_result"

    summary = (suite.path / "summary.md").read_text()
    assert "| sibling | lost_reply | lost_reply | 3 | 500 | 1.2 |" in summary
    assert "◄ never ready" in summary


def test_a_report_that_cannot_be_written_is_one_sentence_and_fails_the_run(suite):
    (suite.path / "file").write_text("")
    done = run(suite, "-k", "reconciled", "--stranded-report", "file/out.html")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "out.html cannot be written" in done.stdout.str()
    assert "Traceback" not in done.stdout.str()
