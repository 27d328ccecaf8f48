"""Calls on a Gym over HTTP, and refusals of whatever an answer should not be (gym.md, "HTTP").

A Gym's own refusals are answers. Everything else that a server can send is a `TargetError` of one sentence: a redirect,
a body that is not JSON or has another schema, too much, too late, or nothing. No message carries the token.
"""

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any, Final, Self
from urllib.parse import urlsplit

import anyio
import httpx
from attrs import asdict, evolve, frozen

from protocol.identity import Receipt
from state_machines.targets.base import TargetError
from state_machines.targets.calls import Loss
from state_machines.targets.network import LINE, LOSS, Line, Network, OpenNetwork, TooLarge
from state_machines.targets.status import Report, Unreadable, optional_word, read_report

CHECKPOINT: Final = "/ng-control/v1/agent-checkpoint"
CAPABILITIES: Final = "/ng-control/v1/capabilities"
SECONDS: Final = 10.0
HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "stranded"}


@frozen
class Answer:
    """The answer to a control call: its status, its refusal code, its body. `lost` when the network kept it."""

    status: int
    code: str | None
    body: dict[str, Any]
    lost: Loss | None = None

    @property
    def ok(self) -> bool:
        return self.status == 200


def parse_url(text: str) -> str:
    """Return the URL of a server without a trailing slash. Raises TargetError for what is not one.

    A password in a URL would end up in logs; the token has an environment variable.
    """
    try:
        parts = urlsplit(text)
        port_ok = parts.port is None or parts.port > 0
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        raise TargetError(f"{_told(text)} cannot be read as a URL http://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise TargetError(f"{_told(text)} is not a target: model, http, or a URL http://HOST:PORT")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise TargetError(f"{_told(text)} has more than scheme, host, port and path; the token goes in --token-env")
    return text.rstrip("/")


def _told(text: str) -> str:
    """Return a URL for a message: shortened, and nothing of a password, a query or a fragment."""
    return repr(re.sub(r"//.*@|[?#].*", lambda m: "//…@" if m[0].startswith("//") else f"{m[0][0]}…", text)[:80])


class GymClient:
    """Calls on one server. `seconds` bounds every call that answers at once."""

    def __init__(self, url: str, token: str | None, seconds: float = SECONDS) -> None:
        self.url = parse_url(url)
        headers = dict(HEADERS)
        if token is not None:
            if not (token.isascii() and token.isprintable()) or not token or " " in token:
                raise TargetError("the token has characters that no header can carry")
            headers["authorization"] = f"Bearer {token}"
        self._client = httpx.Client(transport=Network(seconds), headers=headers, trust_env=False)
        unbounded = httpx.Timeout(None, connect=seconds)  # a /run lasts as long as the run
        self._open = httpx.AsyncClient(transport=OpenNetwork(), headers=headers, trust_env=False, timeout=unbounded)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def report(self, checkpoint_id: str) -> Report:
        """Return the status report, with the phase and the active id that Gym says elsewhere. Raises TargetError."""
        try:
            fence = self.get(CAPABILITIES).body
            phase, active = optional_word(fence, "phase"), optional_word(fence, "active_checkpoint_id")
            answer = self.get(f"{CHECKPOINT}/status", checkpoint_id=active or checkpoint_id)
            if not answer.ok:
                raise TargetError(f"{self.url} answered {CHECKPOINT}/status with {answer.status}")
            report = read_report(answer.body)
        except Unreadable as error:
            raise TargetError(f"{self.url} cannot be read: {error}") from None
        return report if report.phase is not None else evolve(report, phase=phase, active_id=active)

    def acknowledge(self, receipts: Iterable[Receipt], loss: Loss | None = None) -> Answer:
        """Release the results of these receipts, all or none."""
        body = {"schema_version": 1, "executions": [asdict(receipt) for receipt in receipts]}
        return self.post(f"{CHECKPOINT}/acknowledge-completed", body, loss)

    async def aclose(self) -> None:
        """Close what `open` used. Needs the event loop that it was used in."""
        await self._open.aclose()

    def get(self, path: str, loss: Loss | None = None, **query: str | int) -> Answer:
        return self._send(self._client.build_request("GET", self.url + path, params=query), path, loss)

    def post(self, path: str, body: dict[str, Any], loss: Loss | None = None) -> Answer:
        return self._send(self._client.build_request("POST", self.url + path, json=body), path, loss)

    def _send(self, request: httpx.Request, path: str, loss: Loss | None) -> Answer:
        if loss is not None:
            request.extensions[LOSS] = loss
        try:
            response = self._client.send(request, follow_redirects=False)
        except httpx.TransportError as error:
            if loss is not None and isinstance(error, httpx.ConnectError | httpx.ReadError):
                return Answer(0, None, {}, loss)
            raise TargetError(self._broken(path, error)) from None
        return self.read(response, path)

    def open(self, loop: asyncio.AbstractEventLoop, path: str, body: dict[str, Any], loss: Loss | None = None) -> Line:
        """Send a call that stays open, as a task of `loop`. The returned line holds its answer back."""
        line = Line()
        request = self._open.build_request("POST", self.url + path, json=body)
        request.extensions |= {LINE: line, LOSS: loss, "trace": line.trace}

        async def call() -> None:
            try:
                with anyio.CancelScope() as line.scope:
                    await self._open.send(request, follow_redirects=False)
            except httpx.TransportError:
                line.lost = True
            finally:
                line.sent.set()
                line.arrived.set()

        line.task = loop.create_task(call())
        return line

    def read(self, response: httpx.Response, path: str) -> Answer:
        """Return a Gym's answer. Raises TargetError for whatever else it is."""
        status = response.status_code
        where = f"{self.url} answered {path} with"
        if 300 <= status < 400:
            host = urlsplit(response.headers.get("location", "")).hostname or "another place"
            raise TargetError(f"{where} a redirect to {host:.80}, which is not followed")
        if status == 401:
            raise TargetError(f"{where} 401: the token is missing or not the server's")
        if status in (404, 405):
            raise TargetError(
                f"{where} {status}: the server has no such route, as one started without a token (docs/live.md)"
            )
        if status == 413:
            raise TargetError(f"{where} 413: the request was too large for it")
        body = self.json(response, path) if status in (200, 409, 422) else {}
        if not isinstance(body, dict):
            raise TargetError(f"{where} JSON that is not an object")
        if status == 422:
            raise TargetError(f"{where} 422: it does not take the request of this version ({_problem(body)})")
        return Answer(status, self.code(body, path) if status == 409 else None, body)

    def json(self, response: httpx.Response, path: str) -> Any:
        """Return the JSON of an answer. Raises TargetError."""
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            raise TargetError(f"{self.url} answered {path} with {response.status_code} and no JSON") from None

    def code(self, body: Any, path: str) -> str:
        """Return the code of a refusal. Raises TargetError when it has none."""
        error = body.get("error") if isinstance(body, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        if not isinstance(code, str) or not code.isidentifier() or len(code) > 80:
            raise TargetError(f"{self.url} answered {path} with a refusal that has no code")
        return code

    def _broken(self, path: str, error: httpx.TransportError) -> str:
        if isinstance(error, TooLarge):
            return f"{self.url} answered {path} with more than this client reads: {error}"
        if isinstance(error, httpx.TimeoutException):
            return f"{self.url} did not answer {path}: {error}"
        return f"{self.url} cannot be reached for {path}: {error}"


def _problem(body: dict[str, Any]) -> str:
    """Where and what, of the first problem of a 422."""
    detail = body.get("detail")
    first = detail[0] if isinstance(detail, list) and detail and isinstance(detail[0], dict) else {}
    place = first.get("loc")
    words = [str(part) for part in place[-2:]] if isinstance(place, list) else []
    text = f"{'.'.join(words)}: {first.get('msg', 'no reason given')}"
    return "".join(c if c.isprintable() else "?" for c in text)[:160]
