"""What is left when something is killed: a clear sentence, and no process."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from protocol.events import Admit, Finish
from protocol.identity import Attempt
from protocol.policy import named
from protocol.scope import Scope
from protocol.system import initial, step
from state_machines.hunt import hunt
from state_machines.targets import TargetError
from state_machines.targets.http import HttpTarget
from state_machines.targets.process import ReferenceGym

HUNT = [sys.executable, "-m", "state_machines", "hunt", "prompt_group", "--target", "http", "--no-save"]


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to pass")


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


def serving(hunting):
    """The server that a hunt started, once it listens."""
    for child in children(hunting.pid):
        sockets = subprocess.run(["ls", "-l", f"/proc/{child}/fd"], capture_output=True, text=True).stdout
        if "socket:" in sockets:
            return child
    return None


def test_a_server_killed_during_a_history_is_a_sentence_that_names_the_last_event():
    gym = ReferenceGym()
    with closing(HttpTarget(gym.url, gym.token, owned=gym)) as target:
        policy, scope = named("sibling"), Scope()
        target.reset(policy, scope)
        before = initial(policy, scope)
        after = step(before, Admit(0))
        target.apply(Admit(0), before, after)
        target.observe()
        os.kill(gym.pid, signal.SIGKILL)
        finish = Finish(Attempt("p0_g1", 0))
        with pytest.raises(TargetError, match=r"cannot be reached.*the last event was number 2, finish p0_g1/0$"):
            target.apply(finish, after, step(after, finish))
    assert gone(gym.pid)


def test_a_server_killed_during_a_hunt_ends_it_at_once():
    gym = ReferenceGym()
    with closing(HttpTarget(gym.url, gym.token, owned=gym)) as target:
        killed = []

        def kill(progress):
            if progress.examples == 5 and not killed:
                killed.append(time.monotonic())
                os.kill(gym.pid, signal.SIGKILL)

        with pytest.raises(TargetError, match="the last event was"):
            hunt(named("prompt_group"), Scope(), seed=1, examples=200, target=target, progress=kill)
        assert time.monotonic() - killed[0] < 5
    assert gone(gym.pid)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, -15)])
def test_a_hunt_that_is_stopped_leaves_no_server_behind(sent, code):
    hunting = subprocess.Popen([*HUNT, "--examples", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    server = until(lambda: serving(hunting))
    hunting.send_signal(sent)
    _, err = hunting.communicate(timeout=30)
    assert hunting.returncode == code
    assert b"Traceback" not in err
    until(lambda: gone(server))


def test_a_hunt_on_the_reference_gym_ends_with_its_findings_and_no_server():
    small = ["--groups", "1", "--siblings", "2", "--examples", "10", "--seed", "1", "--brief"]
    ended = subprocess.run([*HUNT, *small], capture_output=True, text=True, timeout=120)
    assert ended.returncode in (0, 1), ended.stderr
    assert "diverged" not in ended.stdout
    assert "prompt_group:" in ended.stdout


def test_closing_a_target_twice_is_fine_and_ends_its_server():
    gym = ReferenceGym()
    target = HttpTarget(gym.url, gym.token, owned=gym)
    target.reset(named("sibling"), Scope())
    target.close()
    target.close()
    assert gone(gym.pid)
