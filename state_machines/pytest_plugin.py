"""The pytest side of `stranded`: its options, its Hypothesis profiles, and the suite of policies.

`pytest --policy NAME` runs `state_machines.suite` for that policy; without one of the options this plugin does nothing.
It is loaded by every pytest run where `stranded` is installed, so it imports nothing heavy before it is asked to.
"""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import frozen

if TYPE_CHECKING:
    from protocol.policy import Policy
    from protocol.scope import Scope
    from state_machines.trace import Trace

pytest_plugins = ["state_machines.campaign.pytest_campaign", "state_machines.report.pytest_report"]

SUITE: Final = Path(__file__).with_name("suite.py")
PROFILES: Final[dict[str, dict[str, Any]]] = {
    "dev": {"derandomize": False},
    "ci": {"derandomize": True, "print_blob": True, "database": None},
    "nightly": {"derandomize": False, "print_blob": True},
}
LONGER: Final = {"nightly": 4}  # times as many examples, and as many hunts of each policy, each with its own seed


@frozen
class Chosen:
    """What the options ask for. `examples` are those of one hunt; each policy is hunted `hunts` times."""

    policies: "tuple[Policy, ...]"
    scope: "Scope"
    raw: bool
    replays: "tuple[tuple[str, Trace], ...]"
    profile: str
    seed: int
    examples: int
    hunts: int


_chosen: Chosen | None = None


def chosen() -> Chosen:
    """Return what this run's options ask for; without any, every named policy in the default scope."""
    from protocol.policy import NAMED
    from protocol.scope import Scope

    if _chosen is not None:
        return _chosen
    return _choice(tuple(policy for policy, _ in NAMED.values()), Scope(), raw=False, replays=(), seed=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stranded", "stranded: histories that leave Gym permanently not ready")
    group.addoption(
        "--policy",
        action="append",
        default=[],
        dest="stranded_policies",
        metavar="NAME",
        help="hunt this policy and check that exactly its known causes are found; repeatable",
    )
    group.addoption(
        "--hunt",
        action="store_true",
        dest="stranded_hunt",
        help="with --policy: show the failure itself, with Hypothesis' own report",
    )
    group.addoption(
        "--replay",
        action="append",
        default=[],
        dest="stranded_replays",
        metavar="FILE",
        help="replay a trace file and check that its recorded verdict comes out again; repeatable",
    )
    group.addoption(
        "--stranded-scope", metavar="BOUND=N,…", help="the scope of --policy, as far as it is not the default"
    )
    group.addoption("--stranded-examples", type=int, metavar="N", help="histories of each hunt of --policy")
    group.addoption("--stranded-seed", type=int, metavar="N", help="the seed of --policy; --hypothesis-seed does too")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    global _chosen
    _chosen = None
    option = config.option
    if not (option.stranded_policies or option.stranded_replays):
        if option.stranded_hunt or option.stranded_scope:
            raise pytest.UsageError("--hunt and --stranded-scope are about a --policy NAME, which is not given")
        return
    register_profiles()
    _chosen = _asked(config)
    option.stranded_seed = _chosen.seed  # for the workers of xdist
    own = str(SUITE)
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args[:] = [own]
    elif own not in config.args:
        config.args.append(own)


def _asked(config: pytest.Config) -> Chosen:
    from protocol.policy import PolicyError
    from protocol.scope import Scope, ScopeError
    from protocol.scope import parse as parse_scope
    from state_machines.commands.options import load_policy
    from state_machines.trace import TraceError, load

    option = config.option
    try:
        policies = tuple(dict.fromkeys(load_policy(text) for text in option.stranded_policies))
        scope = parse_scope(option.stranded_scope or "") if option.stranded_scope else Scope()
        replays = tuple((path, load(Path(path))) for path in option.stranded_replays)
    except (PolicyError, ScopeError, TraceError) as error:
        raise pytest.UsageError(str(error)) from None
    seed = option.stranded_seed
    if seed is None and str(config.getoption("hypothesis_seed", None) or "").isdecimal():
        seed = int(config.getoption("hypothesis_seed"))
    name = config.getoption("hypothesis_profile", None)
    examples = option.stranded_examples
    if examples is not None and examples < 1:
        raise pytest.UsageError("--stranded-examples is at least 1")
    raw = option.stranded_hunt
    return _choice(policies, scope, raw=raw, replays=replays, seed=seed, examples=examples, profile=name)


def _choice(
    policies: "tuple[Policy, ...]",
    scope: "Scope",
    *,
    raw: bool,
    replays: "tuple[tuple[str, Trace], ...]",
    seed: int | None,
    examples: int | None = None,
    profile: str | None = None,
) -> Chosen:
    from hypothesis import settings

    from state_machines.hunt import DEFAULT

    name = profile or settings.get_current_profile_name()
    name = "dev" if name == "default" else name
    times = LONGER.get(name, 1)
    if seed is None:
        seed = 0 if name == "ci" else random.SystemRandom().randrange(1 << 32)
    return Chosen(policies, scope, raw, replays, name, seed, examples or DEFAULT * times, times)


def register_profiles() -> None:
    """Register the profiles `dev`, `ci` and `nightly`, those that the user's own project has not registered.

    `ci` draws the same histories every time and `dev` others; `nightly` draws others and many more of them.
    """
    from hypothesis import settings
    from hypothesis.errors import InvalidArgument

    for name, values in PROFILES.items():
        try:
            settings.get_profile(name)
        except InvalidArgument:
            settings.register_profile(name, deadline=None, **values)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what is hunted, with the seed that hunts the same again."""
    if _chosen is None:
        return None
    from protocol.policy import spell
    from protocol.scope import Scope

    own, default = _chosen.scope.sizes(), Scope().sizes()
    words = [f"{name}={own[name]}" for name in own if own[name] != default[name] or own[name]]
    lines = []
    if _chosen.policies:
        how = "failures shown" if _chosen.raw else "known causes checked"
        lines.append(
            f"stranded: policy {', '.join(map(spell, _chosen.policies))} ({how}), scope {' '.join(words)}, "
            f"profile {_chosen.profile}, seed {_chosen.seed}"
        )
    lines += [f"stranded: replay {path}" for path, _ in _chosen.replays]
    return "\n".join(lines)
