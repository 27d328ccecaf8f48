"""`stranded hazards`: the catalogue of known hazards; list it with its verdicts, or replay one."""

import json
from typing import Any, Final

import click

from protocol.findings import CAUSES, Cause
from protocol.policy import spell
from state_machines.catalogue import BY_ID, ENTRIES, Entry, replayed
from state_machines.commands.options import command_line, out
from state_machines.fairness import Lasso, of_system
from state_machines.mutants import NOTHING, applied
from state_machines.replay import Replay
from state_machines.report.text import timeline, wrapped

HEAD: Final = """\
# Hazards: known faults of this kind, and what this protocol makes of each

Every row is decided, not argued. A verdict means that a search of the whole scope, of so many *states*, finds it at the
length given, and does not find it under the remedy. *Held off* means that no policy shows it, because of the rule
given; the history is that of the protocol without that rule (`docs/mutants.md`). Scopes are one group of two siblings,
two attempts and one snapshot, without faults, but for what is said; the commands below have them whole. A random hunt
that knows only the policy and the scope finds each of them, and shrinks its history to the same length: most in every
run of the tests, the others with `tox -e hazards`. Two it does not find in 12,000 examples: `ack-before-durable` and
`adopt-with-used-id`, of 12 and 11 events.

This file is the output of `stranded hazards --markdown`, and a test fails when it is stale.
"""
LONGER: Final = {"parked-for-ever": 2_000}  # examples, where the default is not enough


@click.command()
@click.argument("hazard", required=False, metavar="[ID]")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text")
@click.option("--markdown", is_flag=True, help="the whole catalogue as docs/hazards.md has it")
def hazards(hazard: str | None, as_json: bool, markdown: bool) -> int:
    """List the known hazards with their verdicts, or replay the one called ID.

    Every verdict is decided anew. Exit 0 when all come out as they are recorded, 1 when one does not.
    """
    if hazard is None:
        return _list(as_json, markdown)
    if markdown:
        raise click.UsageError("--markdown is about the whole catalogue")
    entry = BY_ID.get(hazard)
    if entry is None:
        raise click.UsageError(f"no hazard is called {hazard!r}; stranded hazards lists them")
    run = replayed(entry)
    reproduced = run.verdict == entry.verdict
    if as_json:
        click.echo(json.dumps({"reproduced": reproduced, **_told(run), "hazard": _row(entry)}, indent=1))
    else:
        _show(entry, run, reproduced)
    return 0 if reproduced else 1


def _list(as_json: bool, markdown: bool) -> int:
    runs = {entry.id: replayed(entry) for entry in ENTRIES}
    wrong = [entry.id for entry in ENTRIES if runs[entry.id].verdict != entry.verdict]
    if as_json:
        rows = [{**_row(entry), "reproduced": entry.id not in wrong, **_told(runs[entry.id])} for entry in ENTRIES]
        click.echo(json.dumps({"hazards": rows}, indent=1))
    elif markdown:
        click.echo(document(runs), nl=False)
    else:
        to = out()
        for entry in ENTRIES:
            verdict = entry.decision if entry.id not in wrong else f"NOT REPRODUCED: {runs[entry.id].verdict}"
            lines = [f"{entry.id:20} {len(entry.events):2} events  {verdict}", f"  {hunt_of(entry) or place(entry)}"]
            lines += [] if entry.held_by else [f"  removed by: {remedy(entry)}"]
            for line in lines:
                to.print(line, markup=False, soft_wrap=True)  # never broken: what is pasted is a command or a policy
        click.echo("\n`stranded hazards ID` replays one.")
    return 1 if wrong else 0


def hunt_of(entry: Entry) -> str | None:
    """Return the command of a hunt that finds the hazard; None for one held off, which no hunt of a policy finds."""
    if entry.held_by is not None:
        return None
    further = ["--fair"] * (entry.verdict.word == "unfair")
    further += [f"--examples={LONGER[entry.id]}"] if entry.id in LONGER else []
    return command_line("hunt", [entry.policy], entry.scope, *further, "--seed=1")


def place(entry: Entry) -> str:
    """Return the policy and the scope in which a hazard was looked for, as a command takes them."""
    return command_line("in:", [entry.policy], entry.scope).removeprefix("stranded ")


def picture(entry: Entry, run: Replay, width: int, *, colour: bool = False) -> str:
    """Return the timeline of an entry. What a rule holds off may have no cause by name: then the rule is the cause."""
    text = timeline(run, width=width, colour=colour)
    return text.replace(CAUSES[Cause.OTHER], "the rule that holds it off is skipped") if entry.held_by else text


def bounds(entry: Entry) -> str:
    """Return what the entry's scope adds to one group of two siblings, two attempts, a snapshot and no faults."""
    base = NOTHING.sizes()
    return ",".join(f"{name}={size}" for name, size in entry.scope.sizes().items() if size != base[name])


def remedy(entry: Entry) -> str:
    """Return the policy without the hazard, or why there is none."""
    if entry.remedy is not None:
        return spell(entry.remedy)
    return "the rule" if entry.held_by else "none"


def _told(run: Replay) -> dict[str, Any]:
    verdict = run.verdict
    return {
        "property": None if verdict is None else verdict.property,
        "cause": None if verdict is None else verdict.cause,
        "events": [event.to_json() for event in run.events],
    }


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "sentence": entry.sentence,
        "sources": [address for _, address in entry.links],
        "decision": "held off" if entry.held_by else "shown",
        "rule": None if entry.mutant is None else entry.mutant.rule,
        "mutant": entry.held_by,
        "policy": spell(entry.policy),
        "scope": entry.scope.sizes(),
        "states": entry.states,
        "hunt": hunt_of(entry),
        "remedy": None if entry.remedy is None else spell(entry.remedy),
        "note": entry.note,
    }


def loop(entry: Entry, run: Replay) -> Lasso[Any, Any] | None:
    """Return how a fair scheduler never settles after the entry's history, or None for another verdict."""
    if entry.verdict.word != "unfair":
        return None
    with applied(entry.mutant):
        return of_system().lasso(run.states[-1])


def afterwards(entry: Entry, run: Replay) -> str:
    """Return the sentence that says how an unfair history goes on, or nothing."""
    lasso = loop(entry, run)
    return "" if lasso is None else str(lasso)


def _show(entry: Entry, run: Replay, reproduced: bool) -> None:
    to = out()
    width = min(to.width, 100) if to.is_terminal else 80
    to.print(wrapped(f"{entry.id}: {entry.sentence}", width, "bold"), end="")
    for text, address in entry.links:
        to.print(f"  {text}  {address}", style="dim", markup=False, soft_wrap=True)
    to.print()
    click.echo(picture(entry, run, width, colour=to.is_terminal), nl=False)
    for sentence in (afterwards(entry, run), _remedy(entry), entry.note):
        if sentence:
            to.print(wrapped(sentence, width, ""), end="")
    to.print(hunt_of(entry) or place(entry), style="cyan", markup=False, soft_wrap=True)
    told = "reproduced" if reproduced else f"not reproduced: recorded was {entry.verdict}, this is {run.verdict}"
    to.print(wrapped(told, width, "bold green" if reproduced else "bold red"), end="")


def _remedy(entry: Entry) -> str:
    if entry.mutant is not None:
        return f"Held off by a rule, which this history goes without ({entry.held_by}): {entry.mutant.rule}."
    return "" if entry.remedy is None else f"Removed by: {spell(entry.remedy)}"


def document(runs: dict[str, Replay]) -> str:
    """Return docs/hazards.md: a table, then a section with a picture for each entry."""
    head = ("hazard", "verdict", "events", "states", "policy and scope", "removed by", "seen in")
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for entry in ENTRIES:
        where = f"`{spell(entry.policy)}`" + (f" `{bounds(entry)}`" if bounds(entry) else "")
        seen = ", ".join(f"[{text}]({address})" for text, address in entry.links) or "found here"
        cure = f"`{remedy(entry)}`" if entry.remedy is not None else remedy(entry)
        sizes = f"{len(entry.events)} | {entry.states:,}"
        rows.append(f"| [{entry.id}](#{entry.id}) | {entry.decision} | {sizes} | {where} | {cure} | {seen} |")
    sections = [_section(entry, runs[entry.id]) for entry in ENTRIES]
    return "\n".join([HEAD, *rows, "", *sections])


def _section(entry: Entry, run: Replay) -> str:
    said = [entry.sentence, _remedy(entry), entry.note, afterwards(entry, run)]
    prose = "\n\n".join(text for text in said if text)
    shown = "\n".join(line.rstrip() for line in picture(entry, run, 80).splitlines())
    commands = "\n".join(f"    {line}" for line in (f"stranded hazards {entry.id}", hunt_of(entry)) if line)
    return f"## {entry.id}\n\n{prose}\n\n{commands}\n\n```text\n{shown.rstrip()}\n```\n"
