"""The Mermaid diagram: what it says, and that the real Mermaid renders it."""

import json
import random

from picture_histories import HISTORIES, run
from test_pictures_text import WIDE, wander

from protocol.policy import NAMED
from state_machines.report.mermaid import escaped, mermaid

PAGE = "<!doctype html><meta charset=utf-8><body><script src='{script}'></script>"


def test_a_lost_reply_is_an_arrow_that_ends_in_a_cross():
    lines = [line.strip() for line in mermaid(run("lost"), further=False).splitlines()]
    assert lines[:4] == ["sequenceDiagram", "participant RL", "participant W as wire", "participant G as Gym"]
    assert "RL->>G: /run p0_g0/0, p0_g1/0 and p0_g2/0" in lines
    assert lines.index("G-->>W: 200 p0_g1/0") < lines.index("W--xRL: the answer to /run p0_g1/0 is lost")
    assert any(line.startswith("Note over RL,G: STRANDED under sibling") for line in lines)


def test_the_snapshot_and_the_acknowledgement_are_calls_with_answers():
    lines = [line.strip() for line in mermaid(run("clean"), further=False).splitlines()]
    for call, answer in [
        ("RL->>G: acknowledge p0_g0/0", "G-->>RL: 200"),
        ("RL->>G: prepare c0", "G-->>RL: 200 ready"),
        ("RL->>G: commit c0", "G-->>RL: 200"),
        ("RL->>G: resume c0", "G-->>RL: 200"),
    ]:
        assert answer in lines[lines.index(call) :]


def test_what_follows_is_in_a_box_of_its_own():
    text = mermaid(run("stranded"))
    assert text.index("rect ") > text.index("STRANDED")
    assert text.count("409 agent_prepare_incomplete") == 1
    assert "rect" not in mermaid(run("stranded"), further=False)


def test_text_that_means_something_to_mermaid_is_written_with_its_entities():
    assert escaped('a;b#c<script>"&\nd') == "a#59;b#35;c#lt;script#gt;#quot;#amp; d"


def test_the_real_mermaid_renders_every_kind_of_event(opened, npm_script, tmp_path):
    texts = [mermaid(run(name)) for name in HISTORIES]
    seen = set()
    source = random.Random(3)
    for seed in range(60):
        walked = wander(NAMED[source.choice(list(NAMED))][0], WIDE, 25, seed)
        kinds = {(event.name, getattr(event, "call", None)) for event in walked.events}
        if kinds - seen:
            seen |= kinds
            texts.append(mermaid(walked))
    assert len(seen) >= 30
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(script=npm_script("mermaid").as_uri()))
    found = opened(page)
    answers = found.page.evaluate(
        """async (texts) => {
            mermaid.initialize({ startOnLoad: false, securityLevel: "strict" });
            const out = [];
            for (const [i, text] of texts.entries()) {
                try { const { svg } = await mermaid.render(`d${i}`, text); out.push([null, svg]); }
                catch (error) { out.push([String(error), text]); }
            }
            return out;
        }""",
        texts,
    )
    assert [(error, text) for error, text in answers if error] == []
    drawn = "".join(svg for _, svg in answers)
    assert "STRANDED under prompt_group" in drawn
    assert "the answer to /run p0_g1/0 is lost" in drawn
    assert found.errors == []
    assert found.outside == []
    assert json.dumps(texts).count("<script") == 0
