"""The further hazards that hunts and proofs of this protocol have found."""

from typing import Final

from state_machines.catalogue.entry import REPAIRED, Entry, entry, unsafe

FOUND: Final[tuple[Entry, ...]] = (
    entry(
        "null-result",
        "An execution completes with a null result: there is no receipt, so no acknowledgement can release it.",
        [],
        "sibling",
        "siblings=1,null_results=1",
        ("recoverable", "null_result"),
        "sibling,give_up=retire,retire=release",
    ),
    entry(
        "dropped-group",
        "In sibling mode a group is dropped, its attempts used up, while another sibling runs: that result comes too "
        "late for anybody.",
        [],
        "sibling",
        "attempts=1,failures=1,snapshots=0",
        ("recoverable", "late_result"),
        "sibling_repaired",
    ),
    entry(
        "forgotten-result",
        "The trainer restarts alone: Gym retains a result of an attempt that the restored ledger has given up or never "
        "knew.",
        [],
        "sibling",
        "siblings=1,trainer_restarts=1",
        ("recoverable", "forgotten_result"),
        "sibling,restart=adopt",
    ),
    entry(
        "unpayable-debt",
        "Gym restarts alone: the outbox holds a receipt that it no longer knows, and since a flush is all or nothing "
        "every later result is stranded with it.",
        [],
        "sibling",
        "gym_restarts=1",
        ("recoverable", "unpayable_debt"),
        "sibling,restart=adopt",
    ),
    entry(
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
    entry(
        "bare-park",
        "A call downstream is refused during a prepare: the run parks without a boundary and blocks the commit until "
        "it is resumed.",
        [],
        "sibling",
        "siblings=1,refusals=1",
        ("unblocked", "parked_without_boundary"),
        note="No axis removes it: only a resume frees the run, so the snapshot waits for its deadline.",
    ),
    entry(
        "retire-lost",
        "The trainer retires what it gives up, and the retire is lost: the run goes on and its result is nobody's.",
        [],
        "prompt_group,give_up=retire,retire=release",
        "failures=1,lost_retires=1,snapshots=0",
        ("recoverable", "late_result"),
        "prompt_group_repaired,give_up=retire,retire=release",
    ),
    entry(
        "parked-for-ever",
        "A resume is lost with a group partly parked: the others finish, and their results wait for a seal that waits "
        "for the parked.",
        [],
        "prompt_group",
        "lost_resumes=1",
        ("recoverable", "rollback_lost"),
        "prompt_group,resume_retry=at_once",
    ),
    entry(
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
    entry(
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
    entry(
        "adopt-with-used-id",
        "A trainer that restarts twice opens Gym with a checkpoint id of its own: Gym answers a retired one from its "
        "record and stays closed.",
        [],
        "sibling,restart=adopt",
        "siblings=1,trainer_restarts=2,snapshots=2",
        ("reopens", "closed_gym"),
        held_by="restart-adopts-with-a-used-id",
    ),
    entry(
        "unpublished-commit",
        "Gym restarts between its commit and the publish: the commit must survive on its disk, or the manifest names "
        "nothing.",
        [],
        "sibling",
        "siblings=1,gym_restarts=1",
        unsafe("published_once"),
        held_by="restart-of-gym-forgets-the-disk",
    ),
)
