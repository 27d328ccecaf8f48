"""What small scopes look like, state by state: any change of the protocol's behaviour changes one of these numbers.

After a change that is meant, `python -m tests.protocol.test_graphs` prints the table anew; say in the changelog why.
"""

import hashlib
from collections.abc import Iterator

import pytest

from protocol import properties as p
from protocol.system import broken
from state_machines.designs import design
from tests.protocol.histories import every_event, graph, start

GRAPHS = {
    # (policy, scope): (transitions, digest of every one of them)
    ("sibling", "failures=1,snapshots=0"): (113, "59a10fe18dec602f"),
    ("prompt_group", "failures=1,snapshots=0"): (209, "5005629ec90d2dfd"),
    ("prompt_group", "siblings=2"): (345, "be1d7754f6206d5c"),
    ("sibling", "siblings=1,lost_replies=1,lost_receipts=1,failures=1"): (1053, "bcf84eee0bb475d1"),
    ("sibling", "siblings=1,lost_acknowledges=1,drain_deaths=1"): (389, "2bf4303d226b9045"),
    ("sibling,drain=reschedule", "siblings=1,lost_acknowledges=1"): (363, "0a6e737f5afd0278"),
    ("sibling,resume_retry=at_once", "siblings=1,lost_prepares=1,lost_commits=1,lost_resumes=1,commit_failures=1"): (
        620,
        "1f713721d0a7b30c",
    ),
    ("sibling", "siblings=1,lost_resumes=1,snapshots=2"): (1562, "3397d6d3e037a2c9"),
    ("sibling", "siblings=1,attempts=1,disconnects=1,null_results=1,refusals=1,duplicates=1"): (
        631,
        "d4b98c3474ab33a6",
    ),
    ("sibling,lost_reply=same_attempt", "siblings=1,lost_requests=1,lost_replies=1,snapshots=0"): (
        34,
        "ef7e07780170c6bc",
    ),
    ("sibling_repaired", "siblings=1,lost_replies=1,disconnects=1,lost_receipts=1"): (1605, "78334798a94b8fb8"),
    ("prompt_group_repaired", "failures=1,snapshots=0,duplicates=1"): (3315, "1166b5c0842bf012"),
    ("prompt_group_reconciled", "failures=1,snapshots=0"): (859, "22ed26e0475821c2"),
    ("prompt_group,give_up=retire", "failures=1,lost_retires=1,snapshots=0"): (857, "239527a046d3b88d"),
    ("prompt_group,give_up=retire,retire=release,late=raise", "failures=1,snapshots=0"): (401, "5c58eaed640415c5"),
    ("prompt_group,give_up=retire", "failures=1,siblings=2,attempts=1"): (947, "d88baf32dd11ba4a"),
    ("sibling", "siblings=1,trainer_restarts=1"): (894, "a0fb601d41a1f1d2"),
    ("sibling,restart=adopt", "siblings=1,trainer_restarts=1,gym_restarts=1,attempts=1"): (1952, "12c0100237ab69d4"),
    ("sibling", "siblings=1,restarts=1,failures=1"): (1172, "81911a1bd5212b2c"),
    ("prompt_group_ack_on_arrival", "restarts=1"): (1841, "0888332e71e4b023"),
    ("sibling", "siblings=1,groups=2,snapshots=0,failures=1"): (268, "99d0ec0ef1198a69"),
    ("prompt_group_refused", "snapshots=4,lost_prepares=3"): (680, "3bfcb6a1821fea6b"),
    ("prompt_group", "groups=2,failures=1,snapshots=0,attempts=1"): (1371, "b4c861b16282b379"),
    ("sibling", "siblings=1,groups=2,trainer_restarts=1,snapshots=0"): (1027, "e9ea16277a84a26f"),
}

LEASE = {  # the same under the design of protocol/lease.py
    ("prompt_group,give_up=retire", "failures=1,attempts=1"): (937, "c9098c60c10d7e12"),
    ("prompt_group,give_up=retire", "failures=1,lost_retires=1,snapshots=0"): (710, "7047bde3f19f2c9f"),
    ("sibling", "siblings=1,lost_resumes=1,snapshots=2"): (1349, "bd28dffe8d8e6562"),
    ("sibling", "siblings=1,groups=2,snapshots=1,attempts=1"): (780, "95047095d9b63ce3"),
    ("sibling,resume_retry=at_once", "siblings=1,lost_resumes=1,trainer_restarts=1"): (1506, "eec7419d5d45c8ab"),
}


def told(policy: str, scope: str) -> Iterator[str]:
    """Yield all that is said about each transition of a scope; with the first from a state, what is refused there."""
    system = start(policy, scope)
    universe = every_event(1, system.scope.siblings, 2)
    last = None
    for before, event, after in graph(system):
        refused = ""
        if before is not last:
            last = before
            refused = str([broken(before, other) for other in universe])
        said = (
            p.ready(after),
            p.reopened(after),
            p.settled(after),
            p.preparing(after),
            p.committed(after),
            p.rescues(event),
            p.commits_in_time(event),
            *(x.value for x in (p.cause(after), p.blocked_by(after), p.closed_by(after), p.unsettled_by(after))),
            *map(str, p.culprits(after)),
            *(violation.why for violation in p.unsafe(before, event, after)),
        )
        yield f"{refused}{event.to_json()} {event} {after} {said}"


def fingerprint(policy: str, scope: str) -> tuple[int, str]:
    """Return the number of transitions of a scope, and a digest of what is said about them."""
    count, seen = 0, hashlib.sha256()
    for text in told(policy, scope):
        count += 1
        seen.update(text.encode())
    return count, seen.hexdigest()[:16]


@pytest.mark.parametrize(("policy", "scope"), GRAPHS)
def test_every_transition_of_a_small_scope_is_as_recorded(policy, scope):
    assert fingerprint(policy, scope) == GRAPHS[policy, scope]


@pytest.mark.parametrize(("policy", "scope"), LEASE)
def test_every_transition_under_the_lease_is_as_recorded(policy, scope):
    with design("lease"):
        assert fingerprint(policy, scope) == LEASE[policy, scope]


if __name__ == "__main__":
    for table, name in ((GRAPHS, "acknowledge"), (LEASE, "lease")):
        with design(name):
            for key in table:
                print(f"    {key}: {fingerprint(*key)},")
