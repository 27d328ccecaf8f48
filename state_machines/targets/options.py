"""`--target`, `--token-env` and `--defect` for the commands that run histories, and the target that they choose.

@target_options
def hunt(..., target: TargetChoice):
    with target.open() as opened:  # None for the model
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click
from attrs import frozen

from state_machines.targets.base import Target, TargetError

F = TypeVar("F", bound=Callable[..., Any])
TOKEN_ENV: Final = "STRANDED_TOKEN"  # noqa: S105 - the name of a variable


@frozen
class TargetChoice:
    """What the user asked for. `text` is `model`, `http` or a URL."""

    text: str = "model"
    token_env: str = TOKEN_ENV
    defect: str | None = None

    @property
    def is_model(self) -> bool:
        return self.text == "model"

    @contextlib.contextmanager
    def open(self) -> Iterator[Target | None]:
        """Open the target, and close it whatever happens: None for the model, which needs no second opinion.

        `http` starts a reference Gym of our own and ends it with the block, also after Ctrl-C. Raises TargetError.
        """
        if self.defect is not None and self.text != "http":
            raise TargetError("--defect is for the reference Gym that --target http starts")
        if self.is_model:
            yield None
            return
        with contextlib.closing(self._http()) as target:
            yield target

    def _http(self) -> Target:
        try:
            from state_machines.targets.http import HttpTarget
            from state_machines.targets.process import ReferenceGym
        except ModuleNotFoundError as error:
            raise TargetError(f"--target {self.text} needs {error.name}: pip install 'stranded[http]'") from None
        if self.text != "http":
            return HttpTarget(self.text, token_from(self.token_env))
        gym = ReferenceGym(self.defect)
        try:
            return HttpTarget(gym.url, gym.token, owned=gym)
        except BaseException:
            gym.close()
            raise


def token_from(name: str) -> str | None:
    """Return the token in an environment variable, None when there is none. It is never an argument or in a message."""
    return os.environ.get(name) or None


def target_options(command: F) -> F:
    """Add the options. The command gets `target: TargetChoice`."""

    def wrapped(*args: Any, target_text: str, token_env: str, defect: str | None, **kwargs: Any) -> Any:
        return command(*args, target=TargetChoice(target_text, token_env, defect), **kwargs)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--defect", metavar="NAME", help="with --target http: seed a defect (stranded gym --defects)"),
        click.option(
            "--token-env", metavar="NAME", default=TOKEN_ENV, show_default=True, help="variable with the target's token"
        ),
        click.option(
            "--target",
            "target_text",
            metavar="model|http|URL",
            default="model",
            show_default=True,
            help="what the histories run on: http starts a reference Gym of its own",
        ),
    ):
        option(wrapped)
    return wrapped  # type: ignore[return-value]
