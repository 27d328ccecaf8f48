"""Driven through HTTP, the reference Gym answers the recorded operations as the real participant did.

The default run takes every tenth of the 250 recorded sequences, STRANDED_LIVE=all takes them all. What `status` does
not show (tombstones, the keys released long ago) is compared on the model in `test_gym_observations.py`.
"""

import asyncio
import gzip
import json
import time
from pathlib import Path

import httpx
import pytest
from attrs import asdict, evolve
from live_histories import part

from protocol.identity import Attempt, receipt_for

DATA = Path(__file__).parents[1] / "data" / "gym.jsonl.gz"
PREFIX = "/ng-control/v1/agent-checkpoint"
COUNTS = ("ready_to_commit", "running", "parked_with_boundary", "parked_without_boundary", "completed_unacknowledged")


def receipt(attempt):
    return receipt_for(attempt, {"id": str(attempt)})


def named(step):
    return {"rollout_id": step["rollout_id"], "attempt_index": step["attempt_index"]}


class Driver:
    """One sequence: performs each recorded operation, and says what was answered in the words of the data."""

    def __init__(self, client):
        self.client, self.runs, self.prepare = client, {}, None

    async def post(self, path, body):
        return await self.client.post(path, json=body)

    def control(self, step, deadline=3600):
        return {"checkpoint_id": step["checkpoint_id"], "deadline_ts": time.time() + deadline}

    async def perform(self, step):
        match step["op"]:
            case "run":
                body = {"_ng_rollout_id": step["rollout_id"], "_ng_attempt_index": step["attempt_index"]}
                self.runs[step["call"]] = (named(step), asyncio.ensure_future(self.post("/run", body)))
            case "finish" | "fail" | "boundary" | "park":
                await self.post(f"/puppet/{step['op']}", named(step))  # 409 where nobody runs: nothing happens
            case "lose_client":
                for who, task in self.runs.values():
                    if who == named(step):
                        task.cancel()
            case "ack":
                return await self.post(f"{PREFIX}/acknowledge-completed", {"executions": batch(step)})
            case "receipt":
                return await self.client.get(f"{PREFIX}/completion-receipt", params=named(step))
            case "retire":
                return await self.post(f"{PREFIX}/retire", self.control(step) | named(step))
            case "prepare":
                self.prepare = asyncio.ensure_future(self.post(f"{PREFIX}/prepare", self.control(step)))
            case "prepare_expired":
                return await self.post(f"{PREFIX}/prepare", self.control(step, deadline=-1))
            case "commit":
                directory = {"checkpoint_dir": step["checkpoint_id"]}
                return await self.post(f"{PREFIX}/commit", self.control(step) | directory)
            case "resume":
                return await self.post(f"{PREFIX}/resume", self.control(step))
        return None

    async def settled(self, expected):
        """Wait until the calls that end in this step have ended, and the server has seen which clients are left."""
        for ended in expected.get("runs_answered", ()):
            await asyncio.wait({self.runs[ended["call"]][1]}, timeout=5)
        if "prepare_answered" in expected and self.prepare is not None:
            await asyncio.wait({self.prepare}, timeout=5)
        open_runs = {tuple(who.values()) for who, task in self.runs.values() if not task.done()}
        for _ in range(500):
            shown = (await self.client.get("/puppet")).json()
            attached = {(a["rollout_id"], a["attempt_index"]) for a in shown["attached"]}
            waiting = self.prepare is not None and not self.prepare.done()
            if attached == open_runs and shown["preparing"] == waiting:
                return
            await asyncio.sleep(0.002)
        raise AssertionError("the server did not settle")

    def answered(self):
        ended = []
        for call, (_, task) in sorted(self.runs.items()):
            if not task.done():
                continue
            del self.runs[call]
            response = None if task.cancelled() else task.result()
            status = "cancelled" if response is None else response.status_code
            code = {"code": response.json()["error"]["code"]} if status == 409 else {}
            ended.append({"call": call, "status": status, **code})
        out = {"runs_answered": ended} if ended else {}
        if self.prepare is not None and self.prepare.done():
            out["prepare_answered"] = told(self.prepare.result())
            self.prepare = None
        return out

    async def after(self):
        shown = (await self.client.get(f"{PREFIX}/status", params={"checkpoint_id": "c0"})).json()
        executions = {
            f"{e['rollout_id']}/{e['attempt_index']}": e["state"]
            + ("" if e["boundary_index"] is None else f"@{e['boundary_index']}")
            for e in shown["executions"]
        }
        counts = {key: shown[key] for key in ("state", *COUNTS)}
        released = {"acknowledged": shown["acknowledged_completed"]}
        fence = {"phase": shown["phase"], "checkpoint": shown["active_checkpoint_id"]}
        return fence | counts | {"executions": executions} | released

    async def close(self):
        tasks = [task for _, task in self.runs.values()] + ([self.prepare] if self.prepare else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def batch(step):
    attempts = [Attempt(r, int(i)) for r, i in (text.rsplit("/", 1) for text in step["receipts"])]
    receipts = [receipt(attempt) for attempt in attempts]
    if step.get("spoiled") == "wrong_digest":
        receipts[0] = evolve(receipts[0], result_digest="0" * 64)
    elif step.get("spoiled") == "unknown":
        receipts.append(receipt(Attempt("p99_g0", 0)))
    return [asdict(r) for r in receipts]


def told(response):
    code = {"code": response.json()["error"]["code"]} if response.status_code == 409 else {}
    return {"status": response.status_code, **code}


async def replay(gym, record):
    headers = {"authorization": f"Bearer {gym.token}"}
    async with httpx.AsyncClient(base_url=gym.url, headers=headers, timeout=30, trust_env=False) as client:
        await client.post("/puppet/restart", json={"keep": False})
        driver = Driver(client)
        for number, step in enumerate(record["steps"]):
            where = f"sequence {record['sequence']}, step {number}: {step['op']}"
            response = await driver.perform(step)
            await driver.settled(step)
            if response is not None:
                assert told(response) == {k: step[k] for k in ("status", "code") if k in step}, where
                if "reply" in step:
                    assert response.json() == step["reply"], where
            seen = driver.answered()
            assert seen.get("prepare_answered") == step.get("prepare_answered"), where
            assert as_http(step, seen.get("runs_answered", [])) == as_http(step, step.get("runs_answered", [])), where
            expected = step["after"]
            expected = {k: v for k, v in expected.items() if k != "tombstones"}
            expected["acknowledged"] = len(expected["acknowledged"])
            assert await driver.after() == expected, where
        await driver.close()


def as_http(step, answers):
    """The recording says `cancelled` of a retired run's task; its client gets 500 (gym.md)."""
    seen = [dict(a, status=500 if step["op"] == "retire" else a["status"]) for a in answers]
    return sorted(seen, key=lambda a: a["call"])


def sequences():
    with gzip.open(DATA, "rt", encoding="ascii") as lines:
        return [json.loads(line) for line in lines][:: part(1, 10)]


@pytest.mark.parametrize("shard", range(5))
def test_the_reference_gym_answers_as_the_real_participant_did(gym, shard):
    async def all_of_them():
        for record in sequences()[shard::5]:
            await replay(gym, record)

    asyncio.run(all_of_them())
