"""Options that several commands share: policies, the scope's flags, where messages and progress go."""

import importlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

import click
from attrs import fields

from protocol.policy import Policy, PolicyError, spell
from protocol.policy import parse as parse_policy
from protocol.scope import FAULTS, Scope
from protocol.scope import parse as parse_scope

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    from rich.console import Console

    _ParamType = click.ParamType[Policy]
else:  # click before 8.4 has no generic ParamType
    _ParamType = click.ParamType

SIZES = {
    "groups": "prompt groups",
    "siblings": "siblings in a group",
    "attempts": "attempts of a sibling before its group is dropped",
    "snapshots": "snapshots",
}


class PolicyType(_ParamType):
    """A named policy, axis=value pairs, or a policy of the user's own as module:object."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy:
        if isinstance(value, Policy):
            return value
        try:
            return load_policy(value)
        except PolicyError as error:
            self.fail(str(error), param, ctx)


def load_policy(text: str) -> Policy:
    """Return the policy of a name, of axis=value pairs, or of `module:object`. Raises PolicyError."""
    module_name, colon, attribute = text.partition(":")
    if not colon:
        return parse_policy(text)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's module raises is the user's to see
        raise PolicyError(f"{text} cannot be loaded: {error}") from None
    if not isinstance(found, Policy):
        raise PolicyError(f"{text} is a {type(found).__name__}, not a protocol.Policy")
    return found


POLICY = PolicyType()


def scope_options(command: F) -> F:
    """Add one flag for every bound of a scope, and `--scope` for several at once. The command gets `scope: Scope`."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        base = parse_scope(kwargs.pop("scope_text") or "")
        given = {f.name: kwargs.pop(f.name) for f in fields(Scope)}
        sizes = base.sizes() | {name: value for name, value in given.items() if value is not None}
        return command(*args, scope=Scope(**sizes), **kwargs)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    defaults = Scope()
    for field in reversed(fields(Scope)):
        text = SIZES.get(field.name) or FAULTS[field.name]
        default = getattr(defaults, field.name)
        flag = f"--{field.name.replace('_', '-')}"
        decorate = click.option(flag, field.name, type=int, metavar="N", help=f"{text} [{default}]")
        wrapped = decorate(wrapped)
    decorate = click.option(
        "--scope", "scope_text", metavar="BOUND=N,…", help="several bounds at once; a flag of one bound wins"
    )
    return decorate(wrapped)  # type: ignore[return-value]


def command_line(verb: str, policies: Iterable[Policy], scope: Scope, *further: str) -> str:
    """Return the command of a verb for these policies in this scope, to be pasted into a shell as it is."""
    base = Scope().sizes()
    bounds = ",".join(f"{name}={size}" for name, size in scope.sizes().items() if size != base[name])
    words = [*dict.fromkeys(map(spell, policies)), *(["--scope", bounds] if bounds else []), *further]
    return shlex.join(["stranded", verb, *words])


class Printer(Protocol):
    """Prints lines with a style: a console, or `Plain`."""

    def print(
        self, text: str, /, *, style: str | None = None, markup: bool | None = None, soft_wrap: bool | None = None
    ) -> None: ...


class Plain:
    """Prints what a console would where there are no styles and no width: the words. It needs no rich."""

    def print(
        self, text: str, /, *, style: str | None = None, markup: bool | None = None, soft_wrap: bool | None = None
    ) -> None:
        click.echo(text)


def plain(stream: TextIO | None) -> bool:
    """Return whether a stream is no terminal, and nothing asks rich to take it for one."""
    return not (stream is not None and stream.isatty()) and not {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys()


def console() -> "Console":
    """Return the console for progress and messages: standard error, without colour when it is not a terminal."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def out() -> "Console":
    """Return the console for results: standard output, plain when it is not a terminal."""
    from state_machines.commands.output import Output

    return Output(highlight=False, soft_wrap=not sys.stdout.isatty())


def lines() -> Printer:
    """Return the same for results that are lines of text, without tables."""
    return Plain() if plain(sys.stdout) else out()
