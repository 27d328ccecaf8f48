"""The server's process: a socket, uvicorn, and an end that cannot be missed.

A server that another process starts gets a pipe as its standard input and ends when the pipe closes: also after a
SIGKILL of its parent, which leaves no other trace.
"""

import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable

import uvicorn

from state_machines.gym_server.app import create_app
from state_machines.gym_server.service import Service


class CannotListen(OSError):
    """The address is taken, or not one of this machine's: in one sentence."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol is named because asyncio turns Nagle's delay off only for sockets that say TCP
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(128)
    except (OSError, OverflowError, UnicodeError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or error
        raise CannotListen(f"cannot listen on {host} port {port}: {reason}") from None
    return opened


def url_of(opened: socket.socket) -> str:
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(opened: socket.socket, service: Service, token: str | None, started: Callable[[], None]) -> None:
    """Serve until a signal arrives. `started` is called once the server answers."""
    server: uvicorn.Server

    def abort(spared: tuple[str, int] | None) -> None:
        for connection in list(server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None and transport.get_extra_info("peername")[:2] != spared:
                transport.abort()

    app = create_app(service, token, abort)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    started()
    server.run(sockets=[opened])


def end_with_parent() -> None:
    """End this process when standard input ends."""

    def watch() -> None:
        while sys.stdin.buffer.read(1 << 12):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
