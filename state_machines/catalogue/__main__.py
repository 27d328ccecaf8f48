"""`python -m state_machines.catalogue` records the shortest history of every hazard and the size of its search anew."""

import json
from importlib.resources import files
from typing import Any

from state_machines.catalogue import ENTRIES, counted, find
from state_machines.catalogue.entry import DATA, STATES


def record() -> dict[str, list[Any]]:
    """Return the shortest history of every hazard, as it is written to `histories.json`."""
    out = {}
    for entry in ENTRIES:
        finding = find(entry)
        if finding is None:
            raise LookupError(f"{entry.id}: {entry.verdict} is not found in its scope")
        out[entry.id] = [event.to_json() for event in finding.events]
    return out


if __name__ == "__main__":
    target = files("state_machines.catalogue").joinpath(DATA)
    recorded = ",\n".join(
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(event)}" for event in events) + "\n ]"
        for name, events in record().items()
    )
    target.write_text(f"{{\n{recorded}\n}}\n", encoding="utf-8")  # type: ignore[attr-defined]
    sizes = json.dumps({entry.id: counted(entry) for entry in ENTRIES}, indent=1)
    target.with_name(STATES).write_text(f"{sizes}\n", encoding="utf-8")  # type: ignore[attr-defined]
