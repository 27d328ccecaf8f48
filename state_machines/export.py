"""State graphs and traces in the formats of other tools: DOT for graphs, ITF JSON for traces.

ITF is the trace format of Apalache and Quint (https://apalache-mc.org/docs/adr/015adr-trace.html): a list of states,
each an assignment of variables. Integers that JSON cannot carry safely are written as `{"#bigint": "…"}`; sets, tuples
and maps as `{"#set": […]}`, `{"#tup": […]}` and `{"#map": [[key, value]…]}`.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from protocol import properties as p
from protocol.state import System
from state_machines.explore import SystemGraph, traps
from state_machines.replay import Replay

VARIABLES: Final = (
    "event",
    "step",
    "snapshot",
    "open",
    "phase",
    "executions",
    "ledger",
    "outbox",
    "wire",
    "ready",
)


def dot(found: SystemGraph, *, colour: Callable[[System], str] | None = None) -> str:
    """Return the graph as DOT: a node for each state, doubled when Gym is ready, filled red when it cannot be again.

    Edges carry the event's name; ENVIRONMENT and FAULT events are dashed.
    """
    graph, successors = found.graph, found.successors
    systems = [successors.decode(code) for code in graph.states]
    stranded = set(traps(graph, lambda code: p.ready(successors.decode(code)), lambda label: label.rescues))
    lines = ["digraph handover {", "  rankdir=LR;", '  node [shape=circle, label="", width=0.15];']
    for i, system in enumerate(systems):
        shape = "doublecircle" if p.ready(system) else "circle"
        fill = colour(system) if colour is not None else "red" if i in stranded else "white"
        lines.append(
            f'  s{i} [shape={shape}, style=filled, fillcolor="{fill}", tooltip={json.dumps(_tooltip(system))}];'
        )
    for i in range(len(graph.states)):
        for label, after in sorted(set(graph.successors(i)), key=lambda x: (x[0].name, x[1])):
            style = "solid" if label.rescues else "dashed"
            lines.append(f'  s{i} -> s{after} [label="{label.name}", style={style}];')
    return "\n".join([*lines, "}", ""])


def _tooltip(system: System) -> str:
    executions = ", ".join(f"{a} {e.state.value}" for a, e in system.gym.executions) or "nothing"
    return f"snapshot {system.snapshot.step.value}; Gym holds {executions}; {len(system.trainer.outbox)} owed"


def itf(run: Replay) -> dict[str, Any]:
    """Return a history as an ITF trace. `event` is the event that led to the state, empty in the first one."""
    events = ["", *map(str, run.events)]
    return {
        "#meta": {
            "format": "ITF",
            "format-description": "https://apalache-mc.org/docs/adr/015adr-trace.html",
            "source": "stranded",
            "description": "" if run.verdict is None else str(run.verdict),
        },
        "params": [],
        "vars": list(VARIABLES),
        "states": [
            {"#meta": {"index": i}} | _state(event, i, system)
            for i, (event, system) in enumerate(zip(events, run.states, strict=True))
        ],
    }


def _state(event: str, index: int, system: System) -> dict[str, Any]:
    gym, trainer = system.gym, system.trainer
    return {
        "event": event,
        "step": {"#bigint": str(index)},
        "snapshot": system.snapshot.step.value,
        "open": gym.open,
        "phase": gym.fence.phase.value,
        "executions": _map((str(a), e.state.value) for a, e in gym.executions),
        "ledger": _map(
            (f"p{g}_g{s}/{i}", f"{entry.status.value}:{entry.seen.value}")
            for g, group in enumerate(trainer.groups)
            if group is not None
            for s, entries in enumerate(group.siblings)
            for i, entry in enumerate(entries)
        ),
        "outbox": {"#set": [str(receipt.attempt) for receipt in trainer.outbox]},
        "wire": _map((str(m.attempt), m.kind.value) for m in system.wire.messages),
        "ready": p.ready(system),
    }


def _map(pairs: Any) -> dict[str, Any]:
    return {"#map": [list(pair) for pair in pairs]}
