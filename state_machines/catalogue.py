"""The catalogue of known hazards: each an abstract history that this protocol can express, and a verdict on it.

A hazard is *shown* when a named or spelled policy has it: the catalogue gives the policy and scope, the shortest
history, and a policy that removes it. It is *held off* when no policy has it, because a rule of the protocol forbids
it: then the history is that of the mutant that skips this rule (`state_machines.mutants`).

The histories are in `catalogue.json`, recorded by `python -m state_machines.catalogue`; a test finds each of them anew.
"""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, Final

from attrs import frozen

from protocol import policy as policies
from protocol import scope as scopes
from protocol.events import Event, from_json
from protocol.findings import Cause
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System, initial
from protocol.system import step
from state_machines.mutants import NOTHING, Mutant, applied, load
from state_machines.replay import Replay
from state_machines.search import Decider, Finding, search
from state_machines.verdict import Verdict

DATA: Final = "catalogue.json"
GITHUB: Final = "https://github.com/{}/issues/{}"
RL, RAY, GYM = "NVIDIA-NeMo/RL", "ray-project/ray", "NVIDIA-NeMo/Gym"


@frozen
class Entry:
    """One hazard.

    `sources` are (repository, number) of public reports. `policy` and `scope` show `verdict`, under the mutant
    `held_by` where no policy does. `remedy` is the policy without it, None for a held one and where no axis helps.
    """

    id: str
    sentence: str
    sources: tuple[tuple[str, int], ...]
    policy: Policy
    scope: Scope
    verdict: Verdict
    remedy: Policy | None = None
    held_by: str | None = None
    note: str = ""

    @property
    def mutant(self) -> Mutant | None:
        """The mutant that skips the rule that holds this hazard off."""
        return None if self.held_by is None else load()[self.held_by]

    @property
    def events(self) -> tuple[Event, ...]:
        """The shortest history that shows the hazard."""
        return histories()[self.id]

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The sources as (text, address)."""
        return tuple((f"{name} #{number}", GITHUB.format(name, number)) for name, number in self.sources)

    @property
    def decision(self) -> str:
        """The verdict as words: what is shown, or which rule holds it off."""
        if self.held_by is None:
            return str(self.verdict)
        assert self.mutant is not None
        return f"held off: {self.mutant.rule}"


def _entry(
    id: str,
    sentence: str,
    sources: Iterable[tuple[str, int]],
    policy: str,
    scope: str,
    verdict: tuple[str, str],
    remedy: str | None = None,
    *,
    held_by: str | None = None,
    note: str = "",
) -> Entry:
    cure = None if remedy is None else policies.parse(remedy)
    bounds = scopes.parse(scope, NOTHING)
    return Entry(id, sentence, tuple(sources), policies.parse(policy), bounds, Verdict(*verdict), cure, held_by, note)


def _unsafe(name: str) -> tuple[str, str]:
    return name, name


REPAIRED: Final = "prompt_group_repaired"
ENTRIES: Final[tuple[Entry, ...]] = (
    _entry(
        "partial-group",
        "Gym waits for an ACK that comes only at the seal, and the seal waits for siblings that are parked: 409 until "
        "the deadline.",
        [(RL, 4265)],
        "prompt_group",
        "",
        ("unblocked", "partial_group"),
        "prompt_group_ack_on_arrival",
    ),
    _entry(
        "abandoned-result",
        "A sibling finished, then its group was given up: nothing will ever acknowledge the result, and retire refuses "
        "it.",
        [(RL, 4265)],
        "prompt_group",
        "failures=1,snapshots=0",
        ("recoverable", "abandoned_result"),
        REPAIRED,
        note="The history ends at the failure: from there on nothing can keep the group from being given up.",
    ),
    _entry(
        "lost-reply",
        "The answer of a /run is lost after Gym has acted: the trainer has no receipt, and the next attempt strands "
        "the result.",
        [(RL, 4265), (RAY, 44357)],
        "sibling",
        "siblings=1,lost_replies=1",
        ("recoverable", "lost_reply"),
        "sibling,lost_reply=same_attempt",
        note="Fetching the receipt removes it as well (sibling_repaired).",
    ),
    _entry(
        "receipt-fetch-lost",
        "The answer arrives and the GET of its receipt fails: the same as a lost reply, after a good /run.",
        [(RL, 4117)],
        "sibling",
        "siblings=1,lost_receipts=1",
        ("recoverable", "receipt_fetch_lost"),
        "sibling_repaired",
    ),
    _entry(
        "ack-reply-lost",
        "The reply to an acknowledgement is lost: the debt is sent again, and must be a no-op at Gym.",
        [(RL, 4117)],
        "sibling",
        "siblings=1,lost_acknowledges=1",
        ("fair", "other"),
        held_by="gym-acknowledge-not-idempotent",
    ),
    _entry(
        "drain-died",
        "A result arrives during a prepare and the drain has died: 409 until the deadline, though one more flush would "
        "do.",
        [(RL, 4117)],
        "sibling",
        "siblings=1,lost_acknowledges=1",
        ("unblocked", "drain_died"),
        "sibling,drain=reschedule",
        note="The strict flush is over when the result arrives; whether the prepare is sent before or after decides "
        "nothing.",
    ),
    _entry(
        "prepare-rolled-back",
        "A prepare ends not ready: what is parked stays parked and admission stays closed until a resume; if that "
        "never comes, Gym is stopped.",
        [(GYM, 2942)],
        "prompt_group",
        "",
        ("recoverable", "late_result"),
        held_by="snapshot-aborts-without-resume",
        note="The sibling that still runs finishes, and its result waits for the parked one for ever. No policy does "
        "this, so no cause fits; the nearest is named.",
    ),
    _entry(
        "resume-lost",
        "The commit was good and the resume is lost: Gym stays closed, and the same id must be retried first.",
        [(RL, 4117), ("inclusionAI/AReaL", 1160)],
        "sibling",
        "siblings=1,lost_resumes=1",
        ("reopens", "resume_lost"),
        "sibling,resume_retry=at_once",
        note="The next snapshot sends it again; until then nothing runs.",
    ),
    _entry(
        "rollback-resume-lost",
        "A prepare fails and the resume that aborts it fails too: the registry stays frozen, and every later dispatch "
        "waits.",
        [(RL, 4117)],
        "sibling",
        "siblings=1,lost_resumes=1",
        ("reopens", "rollback_lost"),
        "sibling,resume_retry=at_once",
        note="No run is needed: a prepare fails also when its answer does not come before the deadline. With runs, see "
        "parked-for-ever.",
    ),
    _entry(
        "commit-reply-lost",
        "The reply to a commit is lost: nobody knows whether it was written, so it is neither published nor deleted.",
        [("apache/iceberg", 3717), ("ClickHouse/ClickHouse", 115580)],
        "sibling",
        "siblings=1,lost_commits=1",
        _unsafe("published_once"),
        held_by="snapshot-publishes-a-lost-commit",
        note="Gym answers a repeated commit of the same id from its manifest; the trainer aborts instead of repeating.",
    ),
    _entry(
        "ack-before-durable",
        "A result is acknowledged while its seal is only in memory, and the trainer restarts: it must be run again, "
        "not waited for.",
        [("risingwavelabs/risingwave", 25071), ("ClickHouse/ClickHouse", 111733)],
        "sibling",
        "siblings=1,trainer_restarts=1",
        _unsafe("nothing_lost"),
        held_by="restart-waits-for-what-was-acknowledged",
    ),
    _entry(
        "stale-attempt-ack",
        "A late message of an attempt that was given up must neither release nor fail the attempt that follows it.",
        [("dask/distributed", 7356), ("apache/spark", 5276)],
        REPAIRED,
        "failures=2,snapshots=0",
        _unsafe("stale_harmless"),
        held_by="trainer-late-failure-fails-the-newer",
    ),
    _entry(
        "forgotten-owner",
        "A group is discarded while an acknowledgement is still owed: nobody would be left to release the result.",
        [("kubernetes/kubernetes", 108645)],
        "sibling",
        "attempts=1,failures=1,snapshots=0",
        ("recoverable", "abandoned_result"),
        held_by="trainer-drop-clears-the-outbox",
    ),
    _entry(
        "late-child",
        "A group is given up while a sibling's finish is in flight: the late result has no owner.",
        [("kubernetes/kubernetes", 109486)],
        "prompt_group_ack_on_arrival",
        "failures=1,snapshots=0",
        ("recoverable", "late_result"),
        REPAIRED,
        note="Whether the finish is on its way or still to come decides nothing: the result is late either way.",
    ),
    _entry(
        "double-run",
        "The reply is lost and the repeat starts a second run: the repeat must be recognised.",
        [(GYM, 2554)],
        "sibling,lost_reply=same_attempt",
        "siblings=1,lost_replies=1",
        _unsafe("nothing_lost"),
        held_by="gym-begin-reruns-completed",
    ),
    _entry(
        "cut-through-handoff",
        "A checkpoint is committed while a reply is in flight: after a restore the result is nobody's, or both's.",
        [("apache/flink", 15605)],
        "sibling",
        "siblings=1",
        _unsafe("cut_clean"),
        held_by="gym-ready-with-unacknowledged",
    ),
    _entry(
        "orphaned-prepare",
        "The trainer restarts during a prepare: a coordinator that died leaves Gym closed for ever.",
        [("MartinKalema/horizontal-scaling-convex", 158)],
        "sibling",
        "siblings=1,trainer_restarts=1",
        ("reopens", "closed_gym"),
        "sibling,restart=adopt",
        note="Gym's later lease removes it too (docs/lease.md).",
    ),
    _entry(
        "partial-seal",
        "A group is sealed from results of two attempts.",
        [(RL, 3923)],
        REPAIRED,
        "failures=1,snapshots=0",
        _unsafe("sealed_together"),
        held_by="trainer-abandons-one-sibling",
    ),
    _entry(
        "duplicate-result",
        "The same reply arrives twice: the second is a no-op, not a second result.",
        [("THUDM/slime", 2238), (RL, 4265)],
        "sibling",
        "siblings=1,duplicates=1",
        _unsafe("applied_once"),
        held_by="trainer-duplicate-is-a-second-result",
    ),
    _entry(
        "empty-prepare",
        "A prepare with nothing running must be ready at once, not wait for a change.",
        [("pravega/pravega", 1182)],
        "sibling",
        "siblings=1",
        ("unblocked", "other"),
        held_by="gym-prepare-waits-for-a-change",
    ),
    # Found here
    _entry(
        "null-result",
        "An execution completes with a null result: there is no receipt, so no acknowledgement can release it.",
        [],
        "sibling",
        "siblings=1,null_results=1",
        ("recoverable", "null_result"),
        "sibling,give_up=retire,retire=release",
    ),
    _entry(
        "dropped-group",
        "In sibling mode a group is dropped, its attempts used up, while another sibling runs: that result comes too "
        "late for anybody.",
        [],
        "sibling",
        "attempts=1,failures=1,snapshots=0",
        ("recoverable", "late_result"),
        "sibling_repaired",
    ),
    _entry(
        "forgotten-result",
        "The trainer restarts alone: Gym retains a result of an attempt that the restored ledger has given up or never "
        "knew.",
        [],
        "sibling",
        "siblings=1,trainer_restarts=1",
        ("recoverable", "forgotten_result"),
        "sibling,restart=adopt",
    ),
    _entry(
        "unpayable-debt",
        "Gym restarts alone: the outbox holds a receipt that it no longer knows, and since a flush is all or nothing "
        "every later result is stranded with it.",
        [],
        "sibling",
        "gym_restarts=1",
        ("recoverable", "unpayable_debt"),
        "sibling,restart=adopt",
    ),
    _entry(
        "flush-for-ever",
        "The same, with nothing else running: Gym stays ready and the trainer sends a refused flush for ever, so every "
        "strict flush ends its snapshot.",
        [],
        "sibling",
        "siblings=1,gym_restarts=1",
        ("fair", "unpayable_debt"),
        "sibling,restart=adopt",
        note="AG EF holds here; only fairness sees it.",
    ),
    _entry(
        "bare-park",
        "A call downstream is refused during a prepare: the run parks without a boundary and blocks the commit until "
        "it is resumed.",
        [],
        "sibling",
        "siblings=1,refusals=1",
        ("unblocked", "parked_without_boundary"),
        note="No axis removes it: only a resume frees the run, so the snapshot waits for its deadline.",
    ),
    _entry(
        "retire-lost",
        "The trainer retires what it gives up, and the retire is lost: the run goes on and its result is nobody's.",
        [],
        "prompt_group,give_up=retire,retire=release",
        "failures=1,lost_retires=1,snapshots=0",
        ("recoverable", "late_result"),
        "prompt_group_repaired,give_up=retire,retire=release",
    ),
    _entry(
        "parked-for-ever",
        "A resume is lost with a group partly parked: the others finish, and their results wait for a seal that waits "
        "for the parked.",
        [],
        "prompt_group",
        "lost_resumes=1",
        ("recoverable", "rollback_lost"),
        "prompt_group,resume_retry=at_once",
    ),
    _entry(
        "refused-arrival",
        "A /run that was sent before the prepare reaches Gym after it: the 409 costs an attempt, and with the last one "
        "the group is dropped around a live sibling.",
        [],
        "sibling",
        "attempts=1,lost_requests=1",
        ("fair", "late_result"),
        "sibling_repaired",
        note="No request need be lost: with lost_requests in the scope requests spend time on the wire. The 409 comes "
        "in the fair run that follows the history.",
    ),
    _entry(
        "ready-never-comes",
        "A sibling fails during a snapshot: the commit can still succeed in time, so AG EF holds, but no fair run ever "
        "settles the group's late result.",
        [],
        "prompt_group",
        "failures=1",
        ("fair", "late_result"),
        REPAIRED,
        note="AG EF holds here; only fairness sees it.",
    ),
    _entry(
        "adopt-with-used-id",
        "A trainer that restarts twice opens Gym with a checkpoint id of its own: Gym answers a retired one from its "
        "record and stays closed.",
        [],
        "sibling,restart=adopt",
        "siblings=1,trainer_restarts=2,snapshots=2",
        ("reopens", "closed_gym"),
        held_by="restart-adopts-with-a-used-id",
    ),
    _entry(
        "unpublished-commit",
        "Gym restarts between its commit and the publish: the commit must survive on its disk, or the manifest names "
        "nothing.",
        [],
        "sibling",
        "siblings=1,gym_restarts=1",
        _unsafe("published_once"),
        held_by="restart-of-gym-forgets-the-disk",
    ),
)
BY_ID: Final = {entry.id: entry for entry in ENTRIES}


@cache
def histories() -> dict[str, tuple[Event, ...]]:
    """Return the recorded history of every hazard."""
    text = files("state_machines").joinpath(DATA).read_text(encoding="utf-8")
    return {name: tuple(map(from_json, events)) for name, events in json.loads(text).items()}


def with_cause(cause: Cause) -> tuple[Entry, ...]:
    """Return the entries whose finding has a cause: those that a policy shows, then those that a rule holds off."""
    fitting = [entry for entry in ENTRIES if entry.verdict.cause == cause.value]
    return tuple(sorted(fitting, key=lambda entry: entry.held_by is not None))


def find(entry: Entry, policy: Policy | None = None, *, cured: bool = False) -> Finding | None:
    """Return the shortest finding with the entry's verdict in its scope, or None when there is none.

    Searches everything: nothing is known but the policy and the scope. `policy` takes the place of the entry's own;
    `cured` puts the rule back that the entry's mutant skips.
    """
    with applied(None if cured else entry.mutant):
        findings = search(policy or entry.policy, entry.scope)
        return next((finding for finding in findings if finding.verdict == entry.verdict), None)


def replayed(entry: Entry) -> Replay:
    """Return the replay of an entry's history, under its mutant if it has one. The verdict is that of the last event,
    unless an earlier one was worse than unfair."""
    with applied(entry.mutant):
        decider = Decider()
        states: list[System] = [initial(entry.policy, entry.scope)]
        verdict: Verdict | None = None
        at = 0
        for number, event in enumerate(entry.events, 1):
            states.append(step(states[-1], event))
            if verdict is None or verdict.word == "unfair":
                verdict, at = decider.step(states[-2], event, states[-1]), number
    return Replay(entry.policy, entry.scope, entry.events, tuple(states), verdict, at if verdict else None)


def record() -> dict[str, list[Any]]:
    """Return the shortest history of every hazard, as it is written to `catalogue.json`."""
    out = {}
    for entry in ENTRIES:
        finding = find(entry)
        if finding is None:
            raise LookupError(f"{entry.id}: {entry.verdict} is not found in its scope")
        out[entry.id] = [event.to_json() for event in finding.events]
    return out


if __name__ == "__main__":
    target = files("state_machines").joinpath(DATA)
    recorded = ",\n".join(
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(event)}" for event in events) + "\n ]"
        for name, events in record().items()
    )
    target.write_text(f"{{\n{recorded}\n}}\n", encoding="utf-8")  # type: ignore[attr-defined]
