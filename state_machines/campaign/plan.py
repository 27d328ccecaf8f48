"""Plans: a TOML file that says what a campaign looks at, and the shards it is cut into (`docs/campaigns.md`).

A plan is policies x scopes x faults x targets x seeds x modes, with a budget for each combination (a *cell*). A cell is
cut into shards, each with a seed of its own, so that any worker on any machine can run any of them in any order. The
same plan always makes the same shards: their keys are what a store remembers.
"""

import hashlib
import json
import math
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from protocol.policy import Policy, PolicyError, spell
from protocol.scope import Scope, ScopeError
from protocol.scope import parse as parse_scope
from state_machines.campaign.shard import HTTP, HUNT, MODEL, PROVE, Shard
from state_machines.commands.options import load_policy

SHARD_LIMIT: Final = 1_000_000
KEYS: Final = ("name", "policies", "scopes", "faults", "targets", "seeds", "modes", "budget")
BUDGET: Final = ("examples", "seconds", "shard_examples", "shard_seconds", "states")


class PlanError(ValueError):
    """A plan that cannot be used, in one sentence with the file and the key."""


@frozen
class Plan:
    """What a campaign looks at. `scopes` have the plan's faults laid over them already.

    One of `examples` and `seconds` is given for hunts: the budget of one cell, cut into shards of `shard_examples` or
    `shard_seconds`. `states` bounds each proof; what is beyond it is unknown. With `random_seeds` the seeds are drawn
    when the campaign begins and kept in its store; until then `seeds` is empty.
    """

    name: str
    policies: tuple[Policy, ...]
    scopes: tuple[Scope, ...]
    targets: tuple[str, ...] = (MODEL,)
    seeds: tuple[int, ...] = (0,)
    random_seeds: int = 0
    modes: tuple[str, ...] = (HUNT,)
    examples: int | None = None
    seconds: float | None = None
    shard_examples: int = 500
    shard_seconds: float = 60.0
    states: int = 10_000_000

    def shards(self) -> tuple[Shard, ...]:
        """Return every shard once, numbered from 0: the first ones of all cells first, to look at all early."""
        unique = {shard.key: shard for shard in self._shards()}
        return tuple(evolve(shard, number=number) for number, shard in enumerate(unique.values()))

    def size(self) -> int:
        """Return how many shards there are at most, without making them."""
        cells = len(self.policies) * len(self.scopes)
        hunts = cells * len(self.targets) * self.shards_per_hunt()
        return (cells if PROVE in self.modes else 0) + (hunts if HUNT in self.modes else 0)

    def shards_per_hunt(self) -> int:
        """Return how many shards hunt one policy in one scope on one target, with all seeds."""
        return (len(self.seeds) or self.random_seeds) * self._count()

    def _shards(self) -> Iterator[Shard]:
        cells = [(policy, scope) for policy in self.policies for scope in self.scopes]
        if PROVE in self.modes:
            for policy, scope in cells:
                yield Shard(0, PROVE, policy, scope, MODEL, 0, None, None, self.states)
        if HUNT in self.modes:
            for index, (examples, seconds) in enumerate(self._pieces()):
                for seed in self.seeds:
                    for policy, scope in cells:
                        for target in self.targets:
                            own = derive(seed, index, spell(policy), scope.sizes(), target)
                            yield Shard(0, HUNT, policy, scope, target, own, examples, seconds)

    def _count(self) -> int:
        """How many shards a cell has."""
        if self.examples is not None:
            return math.ceil(self.examples / self.shard_examples)
        return math.ceil(self.seconds / self.shard_seconds) if self.seconds is not None else 0

    def _pieces(self) -> Iterator[tuple[int | None, float | None]]:
        """The budgets of a cell's shards."""
        if self.examples is not None:
            for done in range(0, self.examples, self.shard_examples):
                yield min(self.shard_examples, self.examples - done), None
        elif self.seconds is not None:
            yield from [(None, self.seconds / self._count())] * self._count()

    def drawn(self) -> "Plan":
        """Return the plan with its random seeds drawn; itself when it has none to draw."""
        if not self.random_seeds or self.seeds:
            return self
        system = random.SystemRandom()
        return evolve(self, seeds=tuple(system.randrange(1 << 32) for _ in range(self.random_seeds)))

    def same_as(self, other: "Plan") -> bool:
        """Return whether both plans ask for the same, whatever their names are and random seeds were drawn."""
        seeds = () if self.random_seeds and self.random_seeds == other.random_seeds else other.seeds
        mine = () if self.random_seeds and self.random_seeds == other.random_seeds else self.seeds
        return evolve(self, name="", seeds=mine) == evolve(other, name="", seeds=seeds)

    def to_json(self) -> str:
        """Return the plan as JSON that `from_json` reads."""
        return json.dumps(
            {
                "name": self.name,
                "policies": [policy.axes() for policy in self.policies],
                "scopes": [scope.sizes() for scope in self.scopes],
                "targets": self.targets,
                "seeds": self.seeds,
                "random_seeds": self.random_seeds,
                "modes": self.modes,
                "examples": self.examples,
                "seconds": self.seconds,
                "shard_examples": self.shard_examples,
                "shard_seconds": self.shard_seconds,
                "states": self.states,
            }
        )


def from_json(text: str) -> Plan:
    """Return the plan that `Plan.to_json` wrote. Raises an error of Python's for any other text."""
    data = json.loads(text)
    for key in BUDGET:
        if data[key] is not None:
            _amount(key, data[key])
    for target in data["targets"]:
        _target(target)
    _word(data["name"], "name")
    _seeds(data["seeds"] or {"random": data["random_seeds"]})
    return Plan(
        **data
        | {key: tuple(data[key]) for key in ("targets", "seeds", "modes")}
        | {"policies": tuple(Policy().with_axes(axes) for axes in data["policies"])}
        | {"scopes": tuple(Scope(**sizes) for sizes in data["scopes"])}
    )


def derive(*parts: object) -> int:
    """Return a seed that these parts decide, the same on every machine and Python."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:8], "big")


def load(path: Path) -> Plan:
    """Return the plan in a TOML file. Raises PlanError with the file and the key."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not a text in UTF-8, so not a plan") from None
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: not TOML: {error}") from None
    try:
        plan = _plan(data, path.stem)
        try:
            size = f"{plan.size():,}" if plan.size() > SHARD_LIMIT else ""
        except (OverflowError, ValueError):  # a quotient beyond all numbers, or of thousands of digits
            size = "far too many"
        if size:
            raise PlanError(f"budget: {size} shards; a campaign has at most {SHARD_LIMIT:,}")
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    return plan


def _plan(data: dict[str, Any], stem: str) -> Plan:
    _known(data, KEYS, "")
    if "policies" not in data:
        raise PlanError('policies: missing; write for example policies = ["prompt_group"]')
    seeds, random_seeds = _seeds(data.get("seeds", [0]))
    modes = _words(data.get("modes", [HUNT]), "modes")
    for mode in modes:
        if mode not in (HUNT, PROVE):
            raise PlanError(f"modes: {mode!r} is neither {HUNT} nor {PROVE}")
    return Plan(
        name=_word(data.get("name", stem), "name"),
        policies=_unique(_policy(word) for word in _words(data["policies"], "policies")),
        scopes=_scopes(data.get("scopes", [""]), data.get("faults", [""])),
        targets=_unique(_target(word) for word in _words(data.get("targets", [MODEL]), "targets")),
        seeds=seeds,
        random_seeds=random_seeds,
        modes=_unique(modes),
        **_budget(data.get("budget"), needed=HUNT in modes),
    )


def _budget(data: object, *, needed: bool) -> dict[str, Any]:
    if data is None and not needed:
        return {}
    if not isinstance(data, dict):
        raise PlanError("budget: missing; write a table [budget] with examples = N or seconds = N")
    _known(data, BUDGET, "budget.")
    if ("examples" in data and "seconds" in data) or (needed and not {"examples", "seconds"} & set(data)):
        raise PlanError("budget: give examples or seconds, and not both")
    for key, value in data.items():
        unit = key.removeprefix("shard_")
        if unit != key and unit not in data:
            raise PlanError(f"budget.{key}: there is no budget in {unit} that it could cut")
        _amount(key, value)
    return dict(data)


def _amount(key: str, value: Any) -> None:
    seconds = key.endswith("seconds")
    number = isinstance(value, int) or (seconds and isinstance(value, float))
    if isinstance(value, bool) or not number or not 0 < value < 1e12:
        kind = "a number of seconds" if seconds else "a whole number"
        raise PlanError(f"budget.{key}: {_short(value)} is not {kind} above 0 and below 10^12")


def _scopes(scopes: object, faults: object) -> tuple[Scope, ...]:
    out = []
    for text in _words(scopes, "scopes", empty=True):
        scope = _scope(text, "scopes", None)
        out += [_scope(fault, "faults", scope) for fault in _words(faults, "faults", empty=True)]
    return _unique(out)


def _scope(text: str, key: str, base: Scope | None) -> Scope:
    try:
        return parse_scope(text, base)
    except ScopeError as error:
        raise PlanError(f"{key}: {error}") from None


def _policy(text: str) -> Policy:
    try:
        return load_policy(text)
    except PolicyError as error:
        raise PlanError(f"policies: {error}") from None


def _target(text: str) -> str:
    if "@" in text:  # and it is not repeated here
        raise PlanError("targets: an address with a user name or a password; the token goes in an environment variable")
    if text not in (MODEL, HTTP) and not text.startswith(("http://", "https://")):
        raise PlanError(f"targets: {text!r} is neither {MODEL}, {HTTP} (a reference Gym) nor a Gym's http:// address")
    return text


def _seeds(value: object) -> tuple[tuple[int, ...], int]:
    if isinstance(value, dict):
        _known(value, ("random",), "seeds.")
        count = value.get("random")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 10_000:
            raise PlanError(f"seeds.random: {_short(count)} is not a number of seeds from 1 to 10000")
        return (), count
    if not isinstance(value, list) or not value:
        raise PlanError("seeds: not a list of whole numbers, and not { random = N }")
    for seed in value:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 64:
            raise PlanError(f"seeds: {_short(seed)} is not a whole number from 0 to 2^64 - 1")
    return _unique(value), 0


def _known(data: dict[str, Any], keys: tuple[str, ...], prefix: str) -> None:
    for key in data:
        if key not in keys:
            raise PlanError(f"{prefix}{key}: unknown; the keys are {', '.join(prefix + known for known in keys)}")


def _words(value: object, key: str, *, empty: bool = False) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise PlanError(f"{key}: not a list of one or more strings")
    if not empty and not all(value):
        raise PlanError(f"{key}: an empty string")
    return tuple(value)


def _word(value: object, key: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise PlanError(f"{key}: not a string of printable characters")
    return value


def _short(value: object) -> str:
    """A value as it is shown in a sentence. Python refuses to write an integer of very many digits."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 40 else f"{text[:37]}..."


def _unique(values: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))
