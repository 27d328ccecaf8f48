"""`stranded gym`: the reference Gym as a process."""

import os
import sys

import click

from state_machines.commands.options import console
from state_machines.gym_server.defects import DEFECTS
from state_machines.gym_server.service import OPERATIONS, Service

TOKEN_ENV = "STRANDED_TOKEN"  # noqa: S105 - the name of a variable


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 takes a free one")
@click.option("--token-env", metavar="NAME", default=TOKEN_ENV, show_default=True, help="variable that holds the token")
@click.option("--defect", type=click.Choice(list(DEFECTS)), metavar="NAME", help="seed a deliberate defect")
@click.option("--defects", "list_defects", is_flag=True, help="list the defects there are")
@click.option("--with-parent", is_flag=True, help="end when standard input ends")
def gym(host: str, port: int, token_env: str, defect: str | None, list_defects: bool, with_parent: bool) -> int:
    """Start the reference Gym and print its URL.

    The token comes from an environment variable, never from the command line. Without one the checkpoint routes do not
    exist, as in Gym. Ctrl-C ends the server.
    """
    if list_defects:
        width = max(map(len, DEFECTS))
        for name, seeded in DEFECTS.items():
            click.echo(f"{name.ljust(width)}  {seeded.about}")
        return 0
    # the server is an extra, and its help and defects need none
    from state_machines.gym_server.process import CannotListen, end_with_parent, is_loopback, listen, serve, url_of

    token = os.environ.pop(token_env, None) or None
    notes = console()
    if token is None:
        notes.print(f"no token in {token_env}: the checkpoint and puppet routes do not exist", soft_wrap=True)
    elif not (token.isascii() and token.isprintable()) or " " in token:
        raise click.ClickException(f"the token in {token_env} has characters that no header can carry")
    if not is_loopback(host):
        notes.print(f"listening on {host}: every machine that reaches it can begin runs", soft_wrap=True)
    try:
        opened = listen(host, port)
    except CannotListen as error:
        raise click.ClickException(str(error)) from None
    if with_parent:
        end_with_parent()
    service = Service(DEFECTS[defect].seeded() if defect else OPERATIONS)
    try:
        serve(opened, service, token, lambda: _say(url_of(opened)))
    except KeyboardInterrupt:
        pass
    finally:
        opened.close()
    return 0


def _say(url: str) -> None:
    click.echo(url)
    sys.stdout.flush()
