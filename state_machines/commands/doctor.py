"""`stranded doctor`: why a Gym is not ready, and what would release it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from attrs import asdict
from rich.console import Console

from protocol.identity import Receipt
from state_machines.catalogue import with_cause
from state_machines.commands.options import out
from state_machines.doctor import Diagnosis, Ledger, causes, diagnose, read_ledger, sentence_of
from state_machines.report.text import wrapped
from state_machines.targets.base import TargetError
from state_machines.targets.options import TOKEN_ENV, token_from
from state_machines.targets.status import Report, Unreadable, read_receipt, read_report
from state_machines.trace import write

if TYPE_CHECKING:  # httpx is an extra, and a saved document needs none
    from state_machines.targets.client import GymClient

T = TypeVar("T")
LIMIT: Final = 8 << 20  # bytes of a file
SEEN_BY: Final = "doctor"  # the checkpoint id of a status call when none is active


@click.command()
@click.option("--target", "target", metavar="URL|FILE", required=True, help="a Gym, or a saved status document")
@click.option("--token-env", metavar="NAME", default=TOKEN_ENV, show_default=True, help="variable with the Gym's token")
@click.option(
    "--ledger", type=click.Path(path_type=Path), metavar="FILE", help="what the trainer sealed, holds, gave up"
)
@click.option("--release", type=click.Path(path_type=Path), metavar="FILE", help="acknowledge exactly these receipts")
@click.option("--yes", is_flag=True, help="release without asking")
@click.option("--unowned", type=click.Path(path_type=Path), metavar="FILE", help="write the receipts that nobody owns")
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of text")
def doctor(
    target: str,
    token_env: str,
    ledger: Path | None,
    release: Path | None,
    yes: bool,
    unowned: Path | None,
    as_json: bool,
) -> int:
    """Say whether a Gym can become ready to commit, what holds it, and what would release it.

    Reads only, unless --release names a file of receipts: these are shown and then acknowledged, all or none.
    Exit codes: 0 ready, 1 not ready, 2 unusable, 3 can't tell.
    """
    known = None if ledger is None else _from_file(ledger, read_ledger)
    receipts = None if release is None else _from_file(release, read_receipts)
    if receipts is not None and not _is_url(target):
        raise click.UsageError("--release needs a Gym at a URL, not a saved document")
    if unowned is not None and known is None:
        raise click.UsageError("--unowned needs --ledger: without it nobody knows what nobody owns")
    report = _report(target, token_env)
    if receipts is not None:
        report = _release(target, token_env, report, receipts, yes=yes)
    diagnosis = diagnose(report, known)
    if unowned is not None:
        write(unowned, json.dumps([asdict(r) for r in diagnosis.unowned], indent=1) + "\n")
    if as_json:
        click.echo(json.dumps(to_json(diagnosis), indent=1))
    else:
        print_diagnosis(out(), report, diagnosis, known)
    return diagnosis.exit_code


def _is_url(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


def _report(target: str, token_env: str) -> Report:
    if not _is_url(target):
        return _from_file(Path(target), read_report)
    with _client(target, token_env) as client:
        return client.report(SEEN_BY)


def _client(url: str, token_env: str) -> "GymClient":
    try:
        from state_machines.targets.client import GymClient
    except ModuleNotFoundError as error:
        raise TargetError(f"a Gym at a URL needs {error.name}: pip install 'stranded[http]'") from None
    return GymClient(url, token_from(token_env))


def _from_file(path: Path, read: Callable[[Any], T]) -> T:
    """Return what `read` makes of a JSON file. Raises ClickException."""
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT + 1)
        if len(raw) > LIMIT:
            raise Unreadable("larger than 8 MiB")
        return read(json.loads(raw.decode("utf-8")))
    except OSError as error:
        reason = error.strerror or str(error)
    except Unreadable as error:
        reason = str(error)
    except (ValueError, RecursionError):
        reason = "truncated or not JSON"
    raise click.ClickException(f"{path}: {reason}")


def read_receipts(data: object) -> tuple[Receipt, ...]:
    """Return the receipts of a file: a list of them, or an object with the list `executions`. Raises Unreadable."""
    items = data.get("executions") if isinstance(data, dict) else data
    if not isinstance(items, list) or not items:
        raise Unreadable("not a list of completion receipts, or an empty one")
    receipts = tuple(map(read_receipt, items))
    if len({r.attempt for r in receipts}) != len(receipts):
        raise Unreadable("an attempt is listed twice")
    return receipts


def _release(url: str, token_env: str, report: Report, receipts: tuple[Receipt, ...], *, yes: bool) -> Report:
    """Show the receipts, ask, and acknowledge them, all or none; return what Gym reports afterwards.

    Raises ClickException when Gym refuses.
    """
    retained = {x.receipt for x in report.unacknowledged}
    for receipt in receipts:
        note = "" if receipt in retained else "  (Gym does not list this result as un-ACKed)"
        click.echo(
            f"release {receipt.attempt}  {receipt.result_identity}  {receipt.result_digest[:12]}…{note}", err=True
        )
    if not yes and not _confirmed(len(receipts)):
        click.echo("nothing was released", err=True)
        return _report(url, token_env)
    with _client(url, token_env) as client:
        answer = client.acknowledge(receipts)
    if not answer.ok:
        raise click.ClickException(
            f"Gym refused the whole batch ({answer.code or answer.status}): nothing was released"
        )
    after = _report(url, token_env)
    left = {x.receipt for x in after.unacknowledged}
    gone = sum(receipt in retained and receipt not in left for receipt in receipts)
    before = len(receipts) - gone
    click.echo(f"released {gone}" + (f"; {before} had been acknowledged before" if before else ""), err=True)
    return after


def _confirmed(count: int) -> bool:
    try:
        return click.confirm(f"Gym drops {count} result{'s' * (count != 1)} for good. Go on?", err=True)
    except click.Abort:
        raise click.UsageError("--release asks before it acts; --yes is for scripts") from None


def print_diagnosis(to: Console, report: Report, diagnosis: Diagnosis, ledger: Ledger | None) -> None:
    """Print a diagnosis in plain words."""
    width = min(to.width, 100) if to.is_terminal else 80
    style = {True: "bold green", False: "bold red", None: "bold yellow"}[diagnosis.ready]
    to.print(wrapped(diagnosis.sentence, width, style), end="")
    counts = (
        f"running={report.running}, parked_without_boundary={report.parked_without_boundary}, "
        f"completed_unacknowledged={report.completed_unacknowledged}; admission {report.state}"
    )
    to.print(wrapped(counts + (f", phase {report.phase}." if report.phase else "."), width, "dim"), end="")
    for number, hold in enumerate(diagnosis.holds, 1):
        to.print()
        to.print(wrapped(f"{number}. {hold.what}.", width, ""), end="")
        to.print(wrapped(f"{hold.owner.value}: {hold.release}.", width, ""), end="")
        if hold.cause is not None:
            to.print(wrapped(f"Cause that fits: {hold.cause.value}.", width, ""), end="")
    fitting = causes(diagnosis)
    if fitting:
        to.print()
    for cause in fitting:
        to.print(wrapped(f"{cause.value}: {sentence_of(cause)}.", width, ""), end="")
        for entry in with_cause(cause):
            to.print(f"  stranded hazards {entry.id}", style="dim", markup=False)
    if ledger is None and any(hold.receipt is not None for hold in diagnosis.holds):
        to.print(wrapped("With --ledger FILE it can be said which of these results are owed.", width, "dim"), end="")


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as the JSON object of `--json`."""
    return {
        "ready": diagnosis.ready,
        "sentence": diagnosis.sentence,
        "holds": [
            {
                "what": hold.what,
                "owner": hold.owner.name.lower(),
                "release": hold.release,
                "cause": None if hold.cause is None else hold.cause.value,
                "receipt": None if hold.receipt is None else asdict(hold.receipt),
            }
            for hold in diagnosis.holds
        ],
        "causes": [cause.value for cause in causes(diagnosis)],
        "hazards": {cause.value: [entry.id for entry in with_cause(cause)] for cause in causes(diagnosis)},
        "unowned": [asdict(receipt) for receipt in diagnosis.unowned],
    }
