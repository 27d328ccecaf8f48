"""Histories as one line of text, and small graphs by plain breadth-first search: the reference for what is faster."""

from collections.abc import Iterator

from attrs import fields

from protocol import policy as policies
from protocol import scope as scopes
from protocol.events import BY_NAME, Event, LoseReply, LoseRequest, Owner, from_json
from protocol.identity import Attempt
from protocol.scope import Fault
from protocol.state import System, initial
from protocol.system import enabled, step
from protocol.wire import Call

NO_FAULTS = ",".join(f"{fault.value}=0" for fault in Fault)


def event(text: str) -> Event:
    """Return the event that `str` shows: its name, then its values in order."""
    name, *values = text.split()
    keys = [field.name for field in fields(BY_NAME[name])]
    data = {key: int(value) if key == "group" else value for key, value in zip(keys, values, strict=False)}
    return from_json({"event": name, **data})


def start(policy: str = "sibling", scope: str = "") -> System:
    sizes = scopes.parse(NO_FAULTS, scopes.Scope(1, 2, 2, 1))
    return initial(policies.parse(policy), scopes.parse(scope, sizes))


def play(system: System, history: str) -> System:
    for text in filter(None, (word.strip() for word in history.split("|"))):
        system = step(system, event(text))
    return system


def graph(system: System, owners: frozenset[Owner] = frozenset(Owner)) -> Iterator[tuple[System, Event, System]]:
    """Yield every transition that can be reached from `system`."""
    seen, queue = {system}, [system]
    for before in queue:
        for happened in enabled(before, owners):
            after = step(before, happened)
            yield before, happened, after
            if after not in seen:
                seen.add(after)
                queue.append(after)


def every_event(groups: int, siblings: int, attempts: int) -> list[Event]:
    """Return every event that could be written down about so many attempts, whether or not it makes sense."""
    keys = [Attempt(f"p{g}_g{s}", n) for g in range(groups) for s in range(siblings) for n in range(attempts)]
    found: list[Event] = []
    for kind in BY_NAME.values():
        names = [field.name for field in fields(kind)]
        if names == ["group"]:
            found += [kind(group) for group in (-1, *range(groups + 1))]
        elif names == ["attempt"]:
            found += [kind(key) for key in keys]
        elif kind in (LoseRequest, LoseReply):
            found += [kind(call, key) for call in Call for key in (None, *keys)]
        else:
            found.append(kind())
    return found
