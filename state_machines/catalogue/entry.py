"""What the catalogue says of one hazard, and the recorded histories."""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

from attrs import frozen

from protocol import policy as policies
from protocol import scope as scopes
from protocol.events import Event, from_json
from protocol.policy import Policy
from protocol.scope import Scope
from state_machines.mutants import NOTHING, Mutant, load
from state_machines.verdict import Verdict

DATA: Final = "histories.json"
STATES: Final = "states.json"
GITHUB: Final = "https://github.com/{}/issues/{}"
RL, RAY, GYM = "NVIDIA-NeMo/RL", "ray-project/ray", "NVIDIA-NeMo/Gym"
REPAIRED: Final = "prompt_group_repaired"


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
    def states(self) -> int:
        """How many states the whole search of its scope visits."""
        return states()[self.id]

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


@cache
def histories() -> dict[str, tuple[Event, ...]]:
    """Return the recorded history of every hazard."""
    text = files("state_machines.catalogue").joinpath(DATA).read_text(encoding="utf-8")
    return {name: tuple(map(from_json, events)) for name, events in json.loads(text).items()}


@cache
def states() -> dict[str, int]:
    """Return how many states decide each hazard, as recorded."""
    found: dict[str, int] = json.loads(files("state_machines.catalogue").joinpath(STATES).read_text(encoding="utf-8"))
    return found


def entry(
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
    """Return an entry of which the policies, the scope and the verdict are spelled out."""
    cure = None if remedy is None else policies.parse(remedy)
    bounds = scopes.parse(scope, NOTHING)
    return Entry(id, sentence, tuple(sources), policies.parse(policy), bounds, Verdict(*verdict), cure, held_by, note)


def unsafe(name: str) -> tuple[str, str]:
    """Return the verdict of a broken safety property."""
    return name, name
