"""A team's own agent server: only the three routes that it must have, no restart, no clock, effects that show later."""

import asyncio
import socket
import threading
from contextlib import closing

import pytest
import uvicorn
from live_histories import random_history
from starlette.requests import Request
from starlette.responses import JSONResponse

from protocol.policy import named
from protocol.scope import Scope
from state_machines.gym_server import app as server
from state_machines.gym_server.service import Service
from state_machines.targets import TargetError, follow
from state_machines.targets.http import HttpTarget

TOKEN = "their-token"
MODEST = Scope(groups=1, siblings=2, lost_replies=1, failures=1)


class Plain:
    """The reference Gym reduced to what the contract asks for: other puppet routes are hidden, orders take a while."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        path = scope.get("path", "")
        if path == "/puppet":
            answer = JSONResponse({"routes": ["finish", "fail", "boundary"]})
            await answer(scope, receive, send)
        elif path.startswith("/puppet/") and path.rpartition("/")[2] not in ("finish", "fail", "boundary"):
            await JSONResponse({}, 404)(scope, receive, send)
        elif path.startswith("/puppet/"):
            body = await Request(scope, receive).body()
            request = {"type": "http.request", "body": body, "more_body": False}

            async def again():
                return request

            async def silent(message):
                pass

            async def later():
                await asyncio.sleep(0.02)
                await self.app(scope, again, silent)

            self.task = asyncio.ensure_future(later())
            await JSONResponse({})(scope, receive, send)
        else:
            await self.app(scope, receive, send)


@pytest.fixture
def theirs():
    with socket.create_server(("127.0.0.1", 0)) as opened:
        config = uvicorn.Config(Plain(server.create_app(Service(), TOKEN)), log_level="warning", lifespan="off")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(running.serve([opened])))
        thread.start()
        yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        running.should_exit = True
        thread.join()


def test_histories_run_on_a_server_with_the_three_routes_alone(theirs):
    policy = named("sibling_repaired")
    with closing(HttpTarget(theirs, TOKEN, deadline=0.5)) as target:
        for seed in range(4):
            assert follow(target, policy, MODEST, random_history(policy, MODEST, seed, 14)) is None


def test_a_scope_that_needs_a_route_the_server_lacks_is_refused(theirs):
    with closing(HttpTarget(theirs, TOKEN)) as target, pytest.raises(TargetError, match="no /puppet/restart"):
        target.reset(named("sibling"), Scope(gym_restarts=1))


def test_a_gym_that_somebody_else_uses_is_not_hunted_on(theirs):
    with closing(HttpTarget(theirs, TOKEN)) as target:
        target._client.open(target._loop, "/run", {"_ng_rollout_id": "theirs_g0"})
        target._loop.run_until_complete(asyncio.sleep(0.1))
        with pytest.raises(TargetError, match="is not idle"):
            target.reset(named("sibling"), Scope())
