"""The page of findings: one self-contained HTML file. It opens without a network and runs no script but its own.

`page` renders `page.html.j2` with `style.css` and `app.js` written into it. What came from a file reaches the page as
text only: Jinja escapes it, the data block is JSON without `<`, and the script writes nothing but text nodes. A content
security policy names the script by its hash, so that no other one could run.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

from state_machines.report.html.data import Finding, Source, collect
from state_machines.report.html.matrix import Matrix
from state_machines.trace import TraceError
from state_machines.verdict import Judge

__all__ = ["Finding", "Matrix", "Source", "page"]

# No `<` can end the data block or begin a comment in it; U+2028 and U+2029 are for readers that take it for a script.
UNSAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(
    sources: Sequence[Source],
    *,
    title: str = "stranded: findings",
    problems: Sequence[tuple[str, str]] = (),
    matrix: Matrix | None = None,
    summary: Sequence[dict[str, Any]] = (),
    judge: Judge | None = None,
) -> str:
    """Return the page of these findings as text.

    `problems` are files that could not be used, each with its sentence; `summary` has a row for each policy of a run.
    Raises TraceError without jinja2 (the extra `report`).
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError:
        raise TraceError("a page needs jinja2, which is not installed: pip install 'stranded[report]'") from None
    findings, data = collect(sources, judge or Judge())
    script = _file("app.js")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("page.html.j2")).render(
        title=title,
        findings=findings,
        groups=_grouped(findings),
        problems=problems,
        matrix=matrix,
        summary=summary,
        style=_file("style.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=_embedded(data),
    )


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _embedded(data: object) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character, escape in UNSAFE.items():
        text = text.replace(character, escape)
    return text


def _grouped(findings: Sequence[Finding]) -> list[tuple[str, list[tuple[str, list[Finding]]]]]:
    """The findings by policy, then by verdict, both in the order in which they first appear."""
    out: dict[str, dict[str, list[Finding]]] = {}
    for finding in findings:
        out.setdefault(finding.policy, {}).setdefault(finding.title, []).append(finding)
    return [(policy, list(causes.items())) for policy, causes in out.items()]
