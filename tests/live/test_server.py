"""The reference Gym as a server: the token, what it refuses and in which order, connections that close."""

import json
import subprocess
import sys
import time

import httpx
import pytest

from state_machines.gym_server.app import BODY_LIMIT, Token
from state_machines.gym_server.process import CannotListen, is_loopback, listen
from state_machines.targets.process import ReferenceGym

PREFIX = "/ng-control/v1/agent-checkpoint"
RECEIPT = {
    "rollout_id": "p7_g0",
    "attempt_index": 0,
    "execution_generation": 1,
    "result_identity": "p7_g0/0",
    "result_digest": "0" * 64,
}


@pytest.fixture
def client(gym):
    headers = {"authorization": f"Bearer {gym.token}"}
    with httpx.Client(base_url=gym.url, headers=headers, timeout=10, trust_env=False) as opened:
        opened.post("/puppet/restart", json={"keep": False})
        yield opened


def control(checkpoint_id="c0", **more):
    return {"checkpoint_id": checkpoint_id, "deadline_ts": time.time() + 60, **more}


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer wrong", "Basic abc", "bearer {token}"])
def test_a_missing_or_wrong_token_is_401_and_is_not_repeated(gym, header):
    headers = {} if header is None else {"authorization": header.format(token=gym.token)}
    with httpx.Client(base_url=gym.url, trust_env=False) as client:
        for method, path, body in (
            ("GET", f"{PREFIX}/status?checkpoint_id=c0", None),
            ("POST", f"{PREFIX}/resume", control()),
            ("POST", "/puppet/restart", {}),
            ("GET", "/puppet", None),
        ):
            answer = client.request(method, path, json=body, headers=headers)
            assert answer.status_code == 401
            assert set(answer.json()) == {"detail"}
            assert "wrong" not in answer.text
            assert gym.token not in answer.text


def test_tokens_are_compared_as_digests_of_one_length():
    token = Token("secret")
    assert "secret" not in repr(vars(token))
    assert len(token._digest) == 32
    token.check("Bearer secret")


def test_capabilities_and_run_need_no_token(gym, client):
    with httpx.Client(base_url=gym.url, trust_env=False) as stranger:
        shown = stranger.get("/ng-control/v1/capabilities").json()
        assert shown["features"] == ["completed_result_acknowledgement"]
        assert (shown["phase"], shown["active_checkpoint_id"]) == ("idle", None)
        assert stranger.post("/run", json={}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("prepare", control(extra=1)),
        ("prepare", {"checkpoint_id": "c0"}),
        ("prepare", {"checkpoint_id": "c0", "deadline_ts": "soon"}),
        ("prepare", {"checkpoint_id": "", "deadline_ts": 1.0}),
        ("commit", control()),
        ("retire", control(rollout_id="p7_g0", attempt_index=-1)),
        ("acknowledge-completed", {"executions": []}),
        ("acknowledge-completed", {"executions": [RECEIPT, RECEIPT]}),
        ("acknowledge-completed", {"executions": [RECEIPT | {"result_digest": "xyz"}]}),
        ("acknowledge-completed", {"executions": [RECEIPT | {"manifest_capture_key": "k"}]}),
        ("acknowledge-completed", {"executions": [RECEIPT | {"result_identity": "i" * 513}]}),
        ("acknowledge-completed", {"executions": [RECEIPT], "schema_version": 2}),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_body_that_does_not_validate_is_422_also_without_a_token(gym, client, path, body, known):
    headers = {} if known else {"authorization": "Bearer wrong"}
    answer = client.post(f"{PREFIX}/{path}", json=body, headers=headers)
    assert answer.status_code == 422
    problems = answer.json()["detail"]
    assert problems
    assert all(set(problem) == {"loc", "msg", "type"} for problem in problems)


@pytest.mark.parametrize("raw", [b"{", b"[]", b"\xff", b'{"checkpoint_id": NaN}', b"[" * 100_000])
def test_what_is_not_json_is_refused_without_a_trace_of_it(client, raw):
    answer = client.post(f"{PREFIX}/resume", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert len(answer.content) < 1000


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_one_mib_is_413(client, announced):
    body = json.dumps({"_ng_rollout_id": "p7_g0", "padding": "x" * BODY_LIMIT}).encode()
    content = body if announced else iter([body[i : i + 65536] for i in range(0, len(body), 65536)])
    try:
        answer = client.post("/run", content=content, headers={"content-type": "application/json"})
    except httpx.WriteError:
        return  # it was refused and closed before all of it was sent
    assert answer.status_code == 413


def test_a_refusal_has_a_code_and_a_reply_its_body(client):
    refused = client.get(f"{PREFIX}/completion-receipt", params={"rollout_id": "p7_g0", "attempt_index": 0})
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "completed_execution_acknowledgement_error"
    assert client.post(f"{PREFIX}/resume", json=control()).json() == {"state": "accepting", "released": 0}
    assert client.post(f"{PREFIX}/prepare", json=control()).json()["error"]["code"] == "stale_checkpoint"
    report = client.post(f"{PREFIX}/prepare", json=control("c1")).json()
    assert report["ready_to_commit"] is True
    retire = control("c1", rollout_id="p7_g0", attempt_index=3)
    assert client.post(f"{PREFIX}/retire", json=retire).json() == {"retired": False, "tombstoned": True}
    assert client.post(f"{PREFIX}/commit", json=control("c1", checkpoint_dir="d")).json()["records"] == 0


def test_a_commit_into_a_directory_of_another_checkpoint_is_refused_and_the_phase_stays(client):
    for name in ("c0", "c1"):
        client.post(f"{PREFIX}/prepare", json=control(name))
        answer = client.post(f"{PREFIX}/commit", json=control(name, checkpoint_dir="shared"))
        phase = client.get("/ng-control/v1/capabilities").json()["phase"]
        if name == "c0":
            assert (answer.status_code, phase) == (200, "committed_paused")
            again = client.post(f"{PREFIX}/commit", json=control(name, checkpoint_dir="shared"))
            assert again.json() == answer.json()
            client.post(f"{PREFIX}/resume", json=control(name))
        else:
            assert (answer.json()["error"]["code"], phase) == ("agent_checkpoint_error", "prepared")


def test_a_prepare_whose_deadline_has_passed_answers_at_once_and_leaves_admission_closed(gym, client):
    with pytest.raises(httpx.ReadTimeout):
        client.post("/run", json={"_ng_rollout_id": "p7_g0"}, timeout=0.3)  # the client goes away: retired
    late = client.post(f"{PREFIX}/prepare", json=control() | {"deadline_ts": 1})
    assert late.status_code == 200  # nothing runs any more
    client.post(f"{PREFIX}/resume", json=control())
    status = client.get(f"{PREFIX}/status", params={"checkpoint_id": "c1"}).json()
    assert (status["running"], status["state"], status["checkpoint_id"]) == (0, "accepting", "c1")


def test_an_order_to_an_attempt_that_does_not_run_is_refused(client):
    for order in ("finish", "fail", "boundary", "park"):
        answer = client.post(f"/puppet/{order}", json={"rollout_id": "p7_g0", "attempt_index": 0})
        assert answer.json()["error"]["code"] == "no_such_run"


def test_without_a_token_the_checkpoint_and_puppet_routes_do_not_exist():
    process = subprocess.Popen(
        [sys.executable, "-m", "state_machines", "gym", "--with-parent", "--token-env", "NO_SUCH_TOKEN"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        url = process.stdout.readline().decode().strip()
        with httpx.Client(base_url=url, trust_env=False) as client:
            assert client.get("/ng-control/v1/capabilities").status_code == 200
            for path in (f"{PREFIX}/status", "/puppet", "/docs", "/openapi.json"):
                assert client.get(path).status_code == 404
    finally:
        _, err = process.communicate(timeout=10)  # closes its standard input: the server ends by itself
    assert b"no token in NO_SUCH_TOKEN" in err
    assert process.returncode == 0


def test_the_server_listens_on_loopback_and_says_so_otherwise(gym):
    assert gym.url.startswith("http://127.0.0.1:")
    assert is_loopback("127.0.0.2")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
    with listen("127.0.0.1", 0) as taken, pytest.raises(CannotListen, match="cannot listen on 127.0.0.1"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_the_token_is_in_no_log_no_repr_and_no_command_line(gym, capfd):
    command = subprocess.run(["ps", "-o", "args=", "-p", str(gym.pid)], capture_output=True, text=True, check=True)
    assert gym.token not in command.stdout
    with httpx.Client(base_url=gym.url, trust_env=False) as client:
        client.get(f"{PREFIX}/status", headers={"authorization": f"Bearer {gym.token}"})
    assert gym.token not in "".join(capfd.readouterr())
    assert gym.token not in repr(gym)


def test_a_gym_that_is_not_ours_to_start_says_why(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Exception, match="ended with code 1 before it had started"):
        ReferenceGym()
