"""The HTTP surface of the reference Gym: routes, the token, refusals, connections that close (gym.md, "HTTP").

It owns sockets, tasks and the token, and decides nothing: `service` does, with `protocol.gym`. The order of refusals
is Gym's: 413, then 422 (a body that does not validate), then 401, then what the protocol says.
"""

import asyncio
import hmac
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protocol import gym as g
from protocol.identity import Attempt
from state_machines.gym_server import bodies as b
from state_machines.gym_server.service import Service, receipt_json, status_json

CHECKPOINT: Final = "/ng-control/v1/agent-checkpoint"
CAPABILITIES: Final = "/ng-control/v1/capabilities"
BODY_LIMIT: Final = 1 << 20
PUPPET: Final = ("finish", "fail", "boundary", "park", "expire", "fail_commit", "restart")
NO_SUCH_RUN: Final = "no_such_run"
T = TypeVar("T")
Abort = Callable[[tuple[str, int] | None], None]
Authorization = Annotated[str | None, Header()]


class Token:
    """Knows whether a header carries the token. It keeps a digest only, so there is nothing to show by accident."""

    def __init__(self, token: str) -> None:
        self._digest = sha256(f"Bearer {token}".encode()).digest()

    def check(self, header: str | None) -> None:
        """Raise 401 for a missing or wrong header. The time it takes does not depend on what is wrong with it."""
        if not hmac.compare_digest(sha256((header or "").encode()).digest(), self._digest):
            raise HTTPException(401, "a bearer token is needed")


class BodyLimit:
    """Refuse a body over `BODY_LIMIT` with 413, whether or not it announces its length."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if int(announced) > BODY_LIMIT:
            await _json(413, {"detail": "the body is over 1 MiB"}, close=True)(scope, receive, send)
            return
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_LIMIT:
                raise HTTPException(413, "the body is over 1 MiB", {"connection": "close"})
            return message

        await self.app(scope, limited, send)


def create_app(service: Service, token: str | None, abort: Abort = lambda spared: None) -> FastAPI:
    """Return the application. Without a token the checkpoint and puppet routes do not exist (gym.md).

    `abort` ends every open connection but the one from the address given: what clients see of a process that restarts.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    app.add_exception_handler(RequestValidationError, _unprocessable)
    app.include_router(_open_routes(service))
    if token is not None:
        guard = Token(token)
        app.include_router(_checkpoint_routes(service, guard), prefix=CHECKPOINT)
        app.include_router(_puppet_routes(service, guard, abort), prefix="/puppet")
    return app


def _open_routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/run")
    async def run(body: b.Run, request: Request) -> Response:
        if body.rollout_id is None:
            return _json(200, {"id": "unnamed"})  # invisible to the participant
        attempt = Attempt(body.rollout_id, body.attempt_index)
        found = service.begin(attempt)
        if isinstance(found, asyncio.Future):
            answer = await _unless_gone(request, found)
            if answer is None:
                service.lose_client(attempt, found)
                return Response(status_code=499)  # nobody reads it
            found = answer
        if found.status == 200:
            return _json(200, service.results.get(attempt))
        if found.status == 409:
            return _refusal(409, found.code or "", f"{attempt} was refused")
        return _json(500, {"detail": f"{attempt} did not finish"})

    @router.get(CAPABILITIES)
    async def capabilities() -> Response:
        fence = service.gym.fence
        return _json(
            200,
            {
                "schema_version": 1,
                "component": "responses_api_agents",
                "features": ["completed_result_acknowledgement"],
                "phase": fence.phase.value,
                "active_checkpoint_id": fence.active,
            },
        )

    return router


def _checkpoint_routes(service: Service, guard: Token) -> APIRouter:
    router = APIRouter()

    @router.get("/status")
    async def status(
        checkpoint_id: Annotated[str | None, Query(max_length=128)] = None, authorization: Authorization = None
    ) -> Response:
        guard.check(authorization)
        return _json(200, status_json(service.gym, checkpoint_id))

    @router.get("/completion-receipt")
    async def completion_receipt(
        rollout_id: b.Identity,
        attempt_index: Annotated[int, Query(ge=0, lt=b.INDEX_LIMIT)] = 0,
        authorization: Authorization = None,
    ) -> Response:
        guard.check(authorization)
        return _reply(service.completion_receipt(Attempt(rollout_id, attempt_index)))

    @router.post("/acknowledge-completed")
    async def acknowledge_completed(body: b.Batch, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return _reply(service.acknowledge(body.receipts()))

    @router.post("/acknowledge")
    async def acknowledge(body: b.ReceiptBody, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        before = len(service.gym.acknowledged)
        reply = service.acknowledge((body.receipt(),))
        if not reply.ok:
            return _reply(reply)
        return _json(200, {"acknowledged": True, "idempotent": len(service.gym.acknowledged) == before})

    @router.post("/prepare")
    async def prepare(body: b.Control, request: Request, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        found = service.prepare(body.checkpoint_id, body.deadline_ts)
        if isinstance(found, asyncio.Future):
            reply = await _unless_gone(request, found)
            if reply is None:
                service.lose_prepare(found)
                return Response(status_code=499)
            found = reply
        return _reply(found)

    @router.post("/commit")
    async def commit(body: b.InDirectory, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return _reply(service.commit(body.checkpoint_id, body.checkpoint_dir))

    @router.post("/restore")
    async def restore(body: b.InDirectory, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return _reply(service.restore(body.checkpoint_id, body.checkpoint_dir))

    @router.post("/resume")
    async def resume(body: b.Control, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return _reply(service.resume(body.checkpoint_id))

    @router.post("/retire")
    async def retire(body: b.RetireBody, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return _reply(service.retire(body.checkpoint_id, body.attempt))

    return router


def _puppet_routes(service: Service, guard: Token, abort: Abort) -> APIRouter:
    """How the agent lets itself be driven (docs/live.md). Each answers when `status` shows what it did."""
    router = APIRouter()

    def done() -> Response:
        return _json(200, {"status": status_json(service.gym, None)})

    def ordered(attempt: Attempt, order: Callable[[], None]) -> Response:
        if not service.live(attempt):
            return _refusal(409, NO_SUCH_RUN, f"{attempt} is not running")
        order()
        return done()

    @router.get("")
    async def puppet(authorization: Authorization = None) -> Response:
        guard.check(authorization)
        attached = [{"rollout_id": a.rollout, "attempt_index": a.index} for a in sorted(service.runs)]
        preparing = service.waiting is not None
        return _json(200, {"routes": PUPPET, "immediate": True, "attached": attached, "preparing": preparing})

    @router.post("/finish")
    async def finish(body: b.FinishBody, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        given = (body.result,) if "result" in body.model_fields_set else ()
        return ordered(body.attempt, lambda: service.finish(body.attempt, *given))

    @router.post("/fail")
    async def fail(body: b.OfAttempt, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return ordered(body.attempt, lambda: service.agent("fail", body.attempt))

    @router.post("/boundary")
    async def boundary(body: b.OfAttempt, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return ordered(body.attempt, lambda: service.agent("commit_boundary", body.attempt))

    @router.post("/park")
    async def park(body: b.OfAttempt, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        return ordered(body.attempt, lambda: service.agent("park", body.attempt))

    @router.post("/expire")
    async def expire(body: b.Nothing, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        service.expire()
        return done()

    @router.post("/fail_commit")
    async def fail_commit(body: b.OfCheckpoint, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        service.failing.add(body.checkpoint_id)
        return done()

    @router.post("/restart")
    async def restart(body: b.RestartBody, request: Request, authorization: Authorization = None) -> Response:
        guard.check(authorization)
        abort(None if request.client is None else (request.client.host, request.client.port))
        service.restart(keep=body.keep, release=body.retire == "release")
        return _json(200, {}, close=True)

    return router


async def _unless_gone(request: Request, future: "asyncio.Future[T]") -> T | None:
    """Return what `future` brings, or None when the client goes away first or the process restarts."""
    gone = asyncio.ensure_future(_gone(request))
    either: set[asyncio.Future[Any]] = {future, gone}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return future.result() if future.done() and not future.cancelled() else None
    finally:
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(status: int, body: Any, *, close: bool = False) -> Response:
    headers = {"connection": "close"} if close else None
    return Response(json.dumps(body), status, headers, media_type="application/json")


def _refusal(status: int, code: str, detail: str) -> Response:
    return _json(status, {"error": {"code": code, "detail": detail}})


def _reply(reply: g.Reply) -> Response:
    if reply.receipt is not None:
        return _json(200, receipt_json(reply.receipt))
    if reply.status == 0:
        return _refusal(500, reply.code or "", "the prepare that this one waited for was lost")
    return _json(reply.status, reply.json())


async def _unprocessable(request: Request, error: Exception) -> Response:
    """422 as FastAPI writes it, without the values: a body may hold what belongs in no log."""
    assert isinstance(error, RequestValidationError)
    problems: list[Mapping[str, Any]] = list(error.errors())
    return _json(422, {"detail": [{"loc": p["loc"], "msg": p["msg"], "type": p["type"]} for p in problems[:20]]})
