"""The page, in a real browser: stepping, keyboard, side by side, dark mode, width, contrast, escaping, size."""

import random
import re
import time

import attrs
import pytest
from picture_histories import HISTORIES, events, run, trace

from protocol import Scope, enabled, initial, step
from protocol.policy import NAMED, parse
from state_machines.cli import main
from state_machines.report.html import Source, page
from state_machines.report.sources import read
from state_machines.trace import Trace, save
from state_machines.verdict import Judge, Verdict

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page of every history, with hostile text in each place that comes from a file."""
    sources = [Source(f"{EVIL}/{name}.json", trace(name)) for name in HISTORIES]
    sources[1] = attrs.evolve(
        sources[1],
        trace=attrs.evolve(sources[1].trace, found_by={"how": EVIL, EVIL: "</script><script>alert(3)</script>"}),
    )
    path = tmp_path_factory.mktemp("page") / "out.html"
    path.write_text(page(sources, title=EVIL, problems=[(EVIL, f"event 1: {EVIL!r} is not an attempt")]))
    return path


def test_the_page_is_one_file_that_asks_for_nothing(written):
    text = written.read_text()
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", text)
    assert "@import" not in text
    assert "url(" not in text
    assert text.count("<script") == 2  # the data and the page's own, whatever the files said


def test_it_opens_without_an_error_and_without_the_network(written, opened):
    found = opened(written)
    assert found.page.inner_text("section:visible h2") == "stranded: abandoned_result under prompt_group"
    assert found.page.locator("section.finding:visible").count() == 1
    assert (found.errors, found.outside, found.dialogs) == ([], [], [])


def test_hostile_text_is_shown_and_not_run(written, opened):
    found = opened(written, "#f2")
    shown = found.page.inner_text("body")
    assert EVIL in shown
    assert found.page.title() == EVIL
    assert "</script><script>alert(3)</script>" in found.page.text_content("#f2 dl")
    assert found.page.locator("img").count() == 0
    assert (found.errors, found.dialogs) == ([], [])


def test_an_id_with_a_script_in_a_trace_file_is_listed_and_not_run(tmp_path, opened, capsys):
    folder = tmp_path / "found"
    good = save(folder / "good.json", trace("stranded"))
    (folder / "evil.json").write_text(good.read_text().replace("p0_g0/0", "<script>alert(1)</script>"))
    out = tmp_path / "out.html"
    with pytest.raises(SystemExit) as done:
        main(["report", str(folder), "-o", str(out)])
    assert done.value.code == 0
    found = opened(out)
    assert "<script>alert(1)</script>" in found.page.inner_text("#problems")
    assert (found.errors, found.dialogs) == ([], [])


def test_stepping_with_buttons_shows_both_sides_before_and_after(written, opened):
    found = opened(written, "#f1-s1")
    look = found.page
    assert look.inner_text("#f1 output") == "Step 1 of 20: admit 0"
    look.click("#f1 button[aria-label='Step forward']")
    assert look.inner_text("#f1 output") == "Step 2 of 20: finish p0_g0/0"
    assert "p0_g0/0: running" in look.inner_text("#f1 pre[aria-label='Gym, before']")
    after = look.inner_text("#f1 pre[aria-label='Gym, after']")
    assert "p0_g0/0: completed" in after
    assert "completed_unacknowledged=1" in after
    assert "p0_g0/0: result" in look.inner_text("#f1 pre[aria-label='wire, after']")
    assert look.locator("#f1 .states .plus").count() > 0
    assert "fail p0_g1/0" in look.inner_text("#f1 .next")
    assert look.inner_text("#f1 .next li.taken").startswith("fail p0_g1/0")
    assert look.evaluate("location.hash") == "#f1-s2"
    look.click("#f1 button[aria-label='First step']")
    assert look.locator("#f1 button[aria-label='Step back']").is_disabled()
    look.click("#f1 button[aria-label='Last step']")
    assert "completed_unacknowledged=2" in look.inner_text("#f1 pre[aria-label='Gym, after']")


def test_what_may_happen_next_is_what_is_enabled(written, opened):
    look = opened(written, "#f2-s3").page
    shown = look.locator("#f2 .next li code").all_inner_texts()
    assert shown == [str(event) for event in enabled(run("blocked").states[3])]


def test_every_step_has_a_link_that_opens_it(written, opened):
    look = opened(written).page
    links = [link.get_attribute("href") for link in look.locator("#f1 ol.steps a.step").all()]
    assert links == [f"#f1-s{n}" for n in range(1, 21)]
    look.click("#f1 ol.steps a.step >> nth=4")
    assert look.inner_text("#f1 output").startswith("Step 5 of 20: deliver p0_g1/0")
    assert look.get_attribute("#f1 .permalink", "href") == "#f1-s5"
    look.go_back()
    assert look.inner_text("#f1 output").startswith("Step 3 of 20")
    again = opened(written, "#f3-s2-vs-sibling_repaired").page
    assert again.inner_text("#f3 output").startswith("Step 2 of")
    assert "sibling_repaired" in again.inner_text("#f3 .beside h3")


def test_the_keyboard_alone_does_everything(written, opened):
    look = opened(written, "#f1-s1").page
    look.keyboard.press("ArrowRight")
    look.keyboard.press("ArrowRight")
    assert look.inner_text("#f1 output").startswith("Step 3 of 20: fail p0_g1/0")
    assert "STRANDED after event 3" in look.inner_text("#f1 .verdict-here")
    look.keyboard.press("End")
    assert look.inner_text("#f1 output").startswith("Step 20 of 20")
    look.keyboard.press("Home")
    assert look.inner_text("#f1 output").startswith("Step 0 of 20")
    look.keyboard.press("n")
    assert look.inner_text("section:visible h2").startswith("blocked: partial_group")
    look.keyboard.press("p")
    names, rounds = set(), 0
    while rounds < 2:  # a browser may begin at the finding of the address: once past the last, and then everything
        look.keyboard.press("Tab")
        if look.evaluate("document.activeElement === document.body"):
            rounds += 1
            continue
        names.add(look.evaluate("document.activeElement.textContent.trim()"))
        assert look.evaluate("document.activeElement.matches(':focus-visible')")
    assert {"Skip to the finding", "▶", "link to this step", "As text"} <= names
    look.focus("#f1 select")
    look.keyboard.press("s")  # the first option that begins with s, as in any select
    assert look.locator("#f1 .beside h3").count() == 1


def test_side_by_side_marks_the_first_difference_and_tells_what_each_comes_to(written, opened):
    look = opened(written, "#f2-s5").page
    options = look.locator("#f2 select option").all_inner_texts()
    assert options == ["no other policy", *(name for name in NAMED if name != "prompt_group")]
    look.select_option("#f2 select", "sibling")
    table = look.inner_text("#f2 .beside table")
    assert "snapshot c0 is answered 409 until its deadline" in table
    assert "snapshot c0 commits and is published" in table
    assert "seals p0_g0/0" in table
    assert look.locator("#f2 svg .differs").count() == 2
    assert look.evaluate("location.hash") == "#f2-s5-vs-sibling"
    look.keyboard.press("Escape")
    look.click("#f2 button[aria-label='Step forward']")
    look.click("#f2 .beside summary >> nth=0")
    state = look.locator("#f2 .beside pre[aria-label='state under sibling']")
    state.wait_for()
    assert "p0_g0/0: sealed" in state.inner_text()


def test_clicking_in_the_drawing_goes_to_that_step(written, opened):
    look = opened(written, "#f1-s3").page
    box = look.locator("#f1 .timeline .scroll svg").first.bounding_box()
    look.mouse.click(box["x"] + 20, box["y"] + 60)
    assert look.inner_text("#f1 output").startswith("Step 1 of 20")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_no_accessibility_rule_is_broken(written, opened, npm_script, scheme, width):
    """axe-core, all its rules for WCAG 2.2 A and AA: names, roles, contrast, headings, keyboard access."""
    found = opened(written, "#f1-s3-vs-sibling", width=width, scheme=scheme)
    found.page.evaluate(npm_script("axe-core").read_text())
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    result = found.page.evaluate("(tags) => axe.run(document, { runOnly: tags })", tags)
    assert [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in result["violations"]] == []
    assert any(rule["id"] == "color-contrast" for rule in result["passes"])


def test_the_drawings_are_readable_in_both_schemes(written, opened):
    """Axe does not look into drawings: every text of theirs has a contrast of 4.5 with what it may stand on."""
    for scheme in ("light", "dark"):
        look = opened(written, "#f1-s3-vs-sibling", scheme=scheme).page
        assert look.evaluate(CONTRAST) == []


CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const grounds = [getComputedStyle(document.body).backgroundColor, ...["here", "band"].map((name) => getComputedStyle(document.querySelector(`section:not([hidden]) svg .${name}`)).fill)];
  const bad = [];
  for (const text of document.querySelectorAll("section:not([hidden]) svg text"))
    for (const ground of grounds) { const r = ratio(getComputedStyle(text).fill, ground); if (r < 4.5) bad.push([text.textContent, ground, r]); }
  return bad;
}"""  # noqa: E501


@pytest.mark.parametrize("name", ["f1-s3-vs-sibling", "f5-s20"])
def test_nothing_is_cut_off_at_400_pixels(written, opened, name):
    look = opened(written, f"#{name}", width=400).page
    assert look.evaluate("document.documentElement.scrollWidth") <= 400
    for element in look.locator("main button:visible").all():
        box = element.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400


def test_dark_and_light_follow_the_system_and_the_button(written, opened):
    def ground(look):
        return look.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = opened(written).page, opened(written, scheme="dark").page
    assert ground(light) == "rgb(255, 255, 255)"
    assert ground(dark) == "rgb(15, 20, 25)"
    dark.click("#theme")
    assert ground(dark) == "rgb(255, 255, 255)"
    light.click("#theme")
    light.click("#theme")
    assert ground(light) == "rgb(15, 20, 25)"


def test_everything_is_in_the_page_as_text_also_without_a_script(written, opened):
    look = opened(written, script=False).page
    text = look.inner_text("#f1")
    assert "A sibling finished, then its group was given up" in text
    assert "RL abandons p0_g0/0 and clears the result it held" in text
    assert "completed_unacknowledged=2" in text
    assert f"stranded replay '{EVIL}/stranded.json'" in text
    assert look.locator("section.finding:visible").count() == len(HISTORIES)


def test_the_order_of_the_list_is_by_policy_and_cause(written, opened):
    look = opened(written).page
    assert look.locator("nav h2").all_inner_texts() == ["prompt_group", "sibling"]
    assert look.locator("nav .cause").all_inner_texts() == [
        "stranded: abandoned_result",
        "blocked: partial_group",
        "stranded: lost_reply",
        "no finding",
    ]


def many(count: int) -> list[Source]:
    """Random findings, all different, in a scope that is decided at once."""
    scope = Scope(groups=1, siblings=3)
    source, judge, found = random.Random(1), Judge(), {}
    policies = [NAMED[name][0] for name in ("sibling", "prompt_group", "prompt_group_ack_on_arrival")]
    while len(found) < count:
        policy = source.choice(policies)
        system, done = initial(policy, scope), []
        while len(done) < 24 and (possible := enabled(system)):
            event = source.choice(possible)
            before, system = system, step(system, event)
            done.append(event)
            verdict = judge.step(before, event, system)
            if verdict is not None:
                found[policy, tuple(done)] = Trace(policy, scope, tuple(done), verdict, {"how": "random"})
                break
    return [Source(f"{n:03}.json", one) for n, one in enumerate(found.values())]


@pytest.mark.slow
def test_a_page_of_200_findings_opens_and_steps_without_a_wait_that_can_be_felt(tmp_path, opened):
    path = tmp_path / "many.html"
    distinct = many(20)  # each ten times: the browser has as much to do, and the test less
    path.write_text(page([attrs.evolve(one, name=f"{n}-{one.name}") for n in range(10) for one in distinct]))
    begun = time.perf_counter()
    found = opened(path)
    found.page.wait_for_selector("section:visible output")
    opening = time.perf_counter() - begun
    # The browser's own clock, from the key to the next frame: nothing of Playwright's way there and back.
    slowest = found.page.evaluate(
        """async () => {
            const times = [];
            for (const key of ["ArrowLeft", "n", "ArrowLeft", "ArrowRight", "n", "End", "Home", "n", "p"]) {
                const begun = performance.now();
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
                times.push(performance.now() - begun);
            }
            return Math.max(...times);
        }"""
    )
    assert found.page.locator("nav a[data-finding]").count() == 200
    assert found.errors == []
    # Far above what is measured (docs/pictures.md), so that a busy machine does not fail it; a page that draws
    # everything for each step takes ten times as long.
    assert opening < 10
    assert slowest < 1_000


def test_a_folder_a_file_and_a_hunts_output_are_read_and_repeats_left_out(tmp_path):
    from state_machines.trace import to_json

    save(tmp_path / "a" / "one.json", trace("stranded"))
    save(tmp_path / "a" / "two.json", trace("stranded"))
    (tmp_path / "a" / "other.json").write_text("[1, 2]")
    (tmp_path / "a" / "cut.json").write_text('{"format": "stra')
    import json

    hunt = tmp_path / "hunt.json"
    hunt.write_text(json.dumps({"policies": [{"findings": [{"trace": to_json(trace("lost"))}]}]}))
    found = read([tmp_path / "a", hunt])
    assert [source.trace.verdict.cause for source in found.sources] == ["abandoned_result", "lost_reply"]
    assert found.problems == ((str(tmp_path / "a" / "cut.json"), "truncated or not JSON"),)


def test_a_report_of_nothing_usable_says_so_with_exit_2(tmp_path, capsys):
    (tmp_path / "cut.json").write_text("{")
    with pytest.raises(SystemExit) as done:
        main(["report", str(tmp_path), "-o", str(tmp_path / "out.html")])
    assert done.value.code == 2
    with pytest.raises(SystemExit) as done:
        main(["report", str(tmp_path / "nowhere"), "-o", str(tmp_path / "out.html")])
    assert done.value.code == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_a_policy_of_ones_own_is_a_finding_like_any_other(tmp_path, opened):
    mine = parse("prompt_group,late=raise")
    found = Trace(mine, Scope(), events(HISTORIES["stranded"][1]), Verdict("recoverable", "abandoned_result"), {})
    path = tmp_path / "own.html"
    path.write_text(page([Source("own.json", found)]))
    look = opened(path).page
    assert "prompt_group,late=raise" in look.inner_text("h2 >> visible=true")
    assert look.locator("select option").count() == len(NAMED) + 1


def test_the_matrix_stands_on_the_page_as_a_table(tmp_path, opened):
    import json

    entries = [
        {"policy": "sibling", "faults": [], "verdict": "clean"},
        {"policy": "sibling", "faults": ["failures"], "verdict": "clean", "states": 9},
        {"policy": "prompt_group", "faults": [], "verdict": "blocked", "causes": ["partial_group"]},
        {"policy": "prompt_group", "faults": ["failures"], "verdict": EVIL, "causes": ["late_result"]},
    ]
    save(tmp_path / "found" / "t.json", trace("stranded"))
    (tmp_path / "matrix.json").write_text(json.dumps({"scope": {"groups": 1, "failures": 1}, "matrix": entries}))
    paths = [str(tmp_path / name) for name in ("found", "matrix.json", "o.html")]
    with pytest.raises(SystemExit) as done:
        main(["report", paths[0], "--matrix", paths[1], "-o", paths[2]])
    assert done.value.code == 0
    found = opened(tmp_path / "o.html", width=400)
    rows = [row.locator("th, td").all_inner_texts() for row in found.page.locator("#matrix tr").all()]
    assert rows == [
        ["policy", "none", "failures"],
        ["sibling", "clean", "clean"],
        ["prompt_group", "blocked: partial_group", f"{EVIL}: late_result"],
    ]
    assert (found.errors, found.dialogs) == ([], [])
    assert found.page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"matrix": [1]}', '{"matrix": [{"policy": "sibling"}]}'])
def test_a_file_that_is_no_matrix_is_one_sentence_and_exit_2(tmp_path, capsys, text):
    save(tmp_path / "t.json", trace("stranded"))
    (tmp_path / "matrix.txt").write_text(text)
    with pytest.raises(SystemExit) as done:
        main(["report", str(tmp_path), "--matrix", str(tmp_path / "matrix.txt"), "-o", str(tmp_path / "o.html")])
    assert done.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
