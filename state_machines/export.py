"""Exports for other tools: the state graph as DOT for Graphviz, a trace as ITF JSON for Apalache and Quint.

ITF is Apalache's informal trace format (ADR-015): a list of states, each an assignment to the same variables. Every
integer is a `#bigint`, every set and map its object, so a reader needs no schema.
"""

from collections.abc import Iterable
from typing import Any, Final

from protocol import properties
from protocol.identity import Attempt
from protocol.policy import Policy, spell
from protocol.scope import Fault, Scope
from protocol.state import System
from state_machines.explore import SystemGraph, can_reach, explore_system
from state_machines.reduce import ALL, Reductions
from state_machines.replay import Replay

ITF: Final = "https://apalache-mc.org/docs/adr/015adr-trace.html"
VARIABLES: Final[dict[str, str]] = {
    "event": "Str",
    "groups": "Int -> Str",
    "ledger": "Str -> Str",
    "seen": "Str -> Str",
    "outbox": "Set(Str)",
    "retiring": "Set(Str)",
    "draining": "Bool",
    "snapshot": "Str",
    "snapshotNumber": "Int",
    "asked": "Bool",
    "answer": "Str",
    "stuck": "Bool",
    "failures": "Int",
    "published": "Set(Int)",
    "gymOpen": "Bool",
    "executions": "Str -> Str",
    "boundaries": "Str -> Int",
    "clients": "Set(Str)",
    "acknowledged": "Set(Str)",
    "tombstones": "Set(Str)",
    "phase": "Str",
    "active": "Str",
    "wire": "Str -> <<Str, Int>>",
    "budget": "Str -> Int",
    "ready": "Bool",
}
NONE: Final = ""  # of a text: no event yet, no answer, no id


def integer(value: int) -> dict[str, str]:
    return {"#bigint": str(value)}


def mapping(pairs: Iterable[tuple[Any, Any]]) -> dict[str, list[list[Any]]]:
    return {"#map": [[key, value] for key, value in pairs]}


def collection(values: Iterable[Any]) -> dict[str, list[Any]]:
    return {"#set": list(values)}


def pair(*values: Any) -> dict[str, list[Any]]:
    return {"#tup": list(values)}


def state(system: System, event: str = NONE) -> dict[str, Any]:
    """Return the ITF assignment of a system; `event` is what led to it."""
    gym, trainer, snapshot = system.gym, system.trainer, system.snapshot
    entries = [
        (f"p{g}_g{s}/{i}", entry)
        for g, group in enumerate(trainer.groups)
        for s, sibling in enumerate(() if group is None else group.siblings)
        for i, entry in enumerate(sibling)
    ]
    groups = [(g, "not admitted" if x is None else x.status.value) for g, x in enumerate(trainer.groups)]
    return {
        "event": event,
        "groups": mapping((integer(g), status) for g, status in groups),
        "ledger": mapping((name, entry.status.value) for name, entry in entries),
        "seen": mapping((name, entry.seen.value) for name, entry in entries),
        "outbox": collection(str(receipt.attempt) for receipt in trainer.outbox),
        "retiring": _attempts(trainer.retiring),
        "draining": trainer.draining,
        "snapshot": snapshot.step.value,
        "snapshotNumber": integer(snapshot.number),
        "asked": snapshot.asked,
        "answer": snapshot.answer or NONE,
        "stuck": snapshot.stuck,
        "failures": integer(snapshot.failures),
        "published": collection(map(integer, snapshot.published)),
        "gymOpen": gym.open,
        "executions": mapping((str(a), e.state.value) for a, e in gym.executions),
        "boundaries": mapping((str(a), integer(e.boundary)) for a, e in gym.executions if e.boundary is not None),
        "clients": _attempts(a for a, e in gym.executions if e.client),
        "acknowledged": collection(str(receipt.attempt) for receipt in gym.acknowledged),
        "tombstones": _attempts(gym.tombstones),
        "phase": gym.fence.phase.value,
        "active": gym.fence.active or NONE,
        "wire": mapping((str(m.attempt), pair(m.kind.value, integer(m.copies))) for m in system.wire.messages),
        "budget": mapping((fault.value, integer(n)) for fault, n in zip(Fault, system.budget, strict=True)),
        "ready": properties.ready(system),
    }


def _attempts(attempts: Iterable[Attempt]) -> dict[str, list[Any]]:
    return collection(map(str, attempts))


def itf(run: Replay, source: str) -> dict[str, Any]:
    """Return a replayed history as an ITF trace."""
    happened = [NONE, *(str(event) for event in run.events)]
    verdict = "no violation" if run.verdict is None else f"{run.verdict} after {run.at} events"
    return {
        "#meta": {
            "format": "ITF",
            "format-description": ITF,
            "source": source,
            "description": f"{spell(run.policy)}: {verdict}",
            "varTypes": VARIABLES,
        },
        "vars": list(VARIABLES),
        "states": [
            {"#meta": {"index": i}, **state(system, event)}
            for i, (system, event) in enumerate(zip(run.states, happened, strict=True))
        ],
    }


def dot(policy: Policy, scope: Scope, *, max_states: int | None = None, on: Reductions = ALL) -> str:
    """Return the state graph as a DOT digraph. Raises TooMany.

    A state from which Gym never gets ready is red, one in which it is ready green; faults are dashed. With reductions,
    states that differ in nothing but who is who are one.
    """
    found = explore_system(policy, scope, on, max_states=max_states)
    return "".join(_lines(found, f"{spell(policy)}, {_bounds(scope)}"))


def _lines(found: SystemGraph, title: str) -> Iterable[str]:
    graph, decode = found.graph, found.successors.decode
    good = can_reach(graph, lambda code: properties.ready(decode(code)), lambda label: label.rescues)
    yield f'digraph stranded {{\n  label="{_quoted(title)}";\n  rankdir=LR;\n'
    yield '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif"];\n'
    for i, code in enumerate(graph.states):
        system = decode(code)
        about = [system.snapshot.step.value]
        colour = ""
        if not good[i]:
            about.append(properties.cause(system).value)
            colour = ', fillcolor="#f4b6b6"'
        elif properties.ready(system):
            colour = ', fillcolor="#bfe3bf"'
        runs = ", ".join(f"{a} {e.state.value}" for a, e in system.gym.executions)
        yield f'  s{i} [label="{i}: {_quoted(" / ".join(about))}", tooltip="{_quoted(runs or "no runs")}"{colour}];\n'
    for i in range(len(graph.states)):
        for label, target in graph.successors(i):
            dashed = "" if label.rescues else ", style=dashed"
            yield f'  s{i} -> s{target} [label="{_quoted(label.name)}"{dashed}];\n'
    yield "}\n"


def _bounds(scope: Scope) -> str:
    return ", ".join(f"{name}={size}" for name, size in scope.sizes().items() if size)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
