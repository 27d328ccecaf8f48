"""Replies that are not a Gym's are refused in one sentence, without the token in it."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from protocol.policy import named
from protocol.scope import Scope
from state_machines.commands.group import stranded
from state_machines.targets import TargetError
from state_machines.targets.client import GymClient, parse_url
from state_machines.targets.http import HttpTarget
from state_machines.targets.network import LIMIT

TOKEN = "s3cr3t-t0ken"
STATUS = "/ng-control/v1/agent-checkpoint/status"


def http(status, body, *headers):
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextlib.contextmanager
def answering(speak):
    """A server that gives every connection to `speak(socket)`. It ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        over = threading.Event()

        def serve():
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(5)
                    connection.recv(65536)
                    speak(connection, over)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def says(raw):
    return lambda connection, over: connection.sendall(raw)


def drips(raw, rest=b"x"):
    """Send `raw`, then a byte at a time for as long as somebody listens."""

    def speak(connection, over):
        connection.sendall(raw)
        while not over.wait(0.05):
            connection.sendall(rest)

    return speak


GOOD = {
    "state": "accepting", "ready_to_commit": True, "running": 0, "parked_with_boundary": 0,
    "parked_without_boundary": 0, "completed_unacknowledged": 0, "blocking_attempts": [],
    "completed_unacknowledged_attempts": [], "selected_boundaries": [],
}  # fmt: skip


def report(**changes):
    return http(200, json.dumps(GOOD | changes).encode())


HOSTILE = {
    "not HTTP": (says(b"SSH-2.0-x\r\n"), "cannot be reached"),
    "nothing": (says(b""), "cannot be reached"),
    "not JSON": (says(http(200, b"<html>")), "no JSON"),
    "deep JSON": (says(http(200, b"[" * 200_000)), "no JSON"),
    "a list": (says(http(200, b"[]")), "not an object"),
    "empty": (says(http(200, b"")), "no JSON"),
    "wrong schema": (says(http(200, b"{}")), "is not a count"),
    "negative count": (says(report(running=-1)), '"running" is not a count'),
    "count as text": (says(report(running="0")), '"running" is not a count'),
    "list of numbers": (says(report(blocking_attempts=[1])), 'entry 1 of "blocking_attempts"'),
    "control characters": (
        says(report(blocking_attempts=[{"rollout_id": "\x1b[2J", "attempt_index": 0}])),
        "printable",
    ),
    "another host": (says(http(302, b"", "location: http://evil.example/x")), "a redirect to evil.example"),
    "same host": (says(http(307, b"", "location: /elsewhere")), "a redirect to"),
    "refusal without a code": (says(http(409, b'{"error": "no"}')), "no code"),
    "401": (says(http(401, b"{}")), "401: the token"),
    "404": (says(http(404, b"{}")), "no such route"),
    "500": (says(http(500, b"oops")), "with 500"),
    "gzip": (says(http(200, b"\x1f\x8b\x08", "content-encoding: gzip")), "no JSON"),
    "announced huge": (
        drips(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", b"x" * 65536),
        "more than this",
    ),
    "slow body": (drips(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"), "no whole answer"),
    "slow headers": (drips(b"HTTP/1.1 200 OK\r\nx: "), "no whole answer"),
    "silence": (lambda connection, over: over.wait(5), "no whole answer"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_reply_is_one_sentence(case):
    speak, words = HOSTILE[case]
    if case == "announced huge":
        speak = drips(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n" + b"x" * (LIMIT + 1))
    began = time.monotonic()
    with answering(speak) as url, GymClient(url, TOKEN, seconds=0.5) as client:
        with pytest.raises(TargetError) as caught:
            client.report("c0")
        message = caught.value.message
    assert words in message
    assert "\n" not in message
    assert len(message) < 400
    assert TOKEN not in message
    assert message.isprintable()
    assert time.monotonic() - began < 4


def test_a_redirect_is_not_followed_so_the_token_goes_nowhere_else():
    heard = []
    with answering(lambda connection, over: heard.append(1)) as other:
        redirect = says(http(307, b"", f"location: {other}/x"))
        with answering(redirect) as url, GymClient(url, TOKEN) as client, pytest.raises(TargetError):
            client.report("c0")
    assert heard == []


def test_a_target_that_is_no_puppet_is_refused_before_anything_happens():
    with answering(says(http(200, b'{"routes": ["finish"]}'))) as url:
        target = HttpTarget(url, TOKEN)
        with contextlib.closing(target), pytest.raises(TargetError, match="does not offer the puppet routes"):
            target.reset(named("sibling"), Scope())


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "http://",
        "http://user:pw@host",
        "http://host?x=1",
        "nonsense",
        "http://[",
        "http://h:99999",
        "http://h:0",
    ],
)
def test_what_is_not_the_url_of_a_server_is_refused_and_a_password_is_not_shown(url):
    with pytest.raises(TargetError) as caught:
        parse_url(url)
    assert "pw" not in caught.value.message


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "é"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token):
    with pytest.raises(TargetError) as caught:
        GymClient("http://127.0.0.1:1", token)
    assert not token or token not in caught.value.message


def test_hunt_on_nobody_is_exit_2_and_one_line(monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", TOKEN)
    command = [sys.executable, "-m", "state_machines", "hunt", "--target", "http://127.0.0.1:1"]
    ended = subprocess.run([*command, "--token-env", "SOME_TOKEN"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.startswith("stranded: http://127.0.0.1:1 cannot be reached")
    assert ended.stderr.count("\n") == 1
    assert TOKEN not in ended.stderr


def test_a_defect_needs_the_reference_gym():
    ended = CliRunner().invoke(stranded, ["hunt", "--defect", "half_batch"])
    assert ended.exit_code != 0
    assert "--target http" in ended.output
