"""Run `handover.pml` through SPIN: `python benchmarks/spin/model.py sibling 1 2 2 1 1 1`, the bounds as in `Scope`.

The model is written by hand after the rules of `protocol`; README.md says what agreement with it shows.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attrs import frozen

from protocol import policy as axes
from protocol.policy import Policy, parse
from protocol.scope import Scope

HERE = Path(__file__).resolve().parent
KNOWN = {"groups", "siblings", "attempts", "snapshots", "failures", "lost_replies"}
COUNT = re.compile(r"^ *([\d.e+]+) (states, stored|transitions \(=)", re.MULTILINE)


@frozen
class Measured:
    """What a process printed, and what it cost: seconds, those of a processor, MiB at its peak."""

    output: str
    seconds: float
    processor: float
    memory: float
    code: int


@frozen
class Checked:
    """What SPIN says. `errors` counts the states in which the pair is at rest and Gym is not ready, if asked for.

    `states` and `transitions` are those stored and taken; `compiling` are the seconds of spin and gcc, `checking` those
    of the checker, `processor` those of a processor in all three; `memory` is the checker's.
    """

    states: int
    transitions: int
    errors: int
    compiling: float
    checking: float
    processor: float
    memory: float

    @property
    def seconds(self) -> float:
        return self.compiling + self.checking


def measure(command: list[str], cwd: Path | str | None = None, limit: float = 600) -> Measured:
    """Run a command to its end; one that takes longer than `limit` seconds is stopped and has code -1."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, process_group=0)
        pid, late = 0, False
        try:
            while not pid:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if not pid and not late and time.perf_counter() - started > limit:
                    late = True
                    os.killpg(process.pid, signal.SIGKILL)  # gcc's own processes too
                time.sleep(0 if pid else 0.002)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    code = -1 if late else process.returncode
    seconds, processor = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    return Measured(text, seconds, processor, usage.ru_maxrss / 1024, code)


def defines(policy: Policy, scope: Scope) -> list[str]:
    """Return the model's switches. Raises ValueError for what the model does not describe."""
    other = [name for name, size in scope.sizes().items() if size and name not in KNOWN]
    if other or scope.snapshots > 1:
        raise ValueError(f"handover.pml has no {', '.join(other) or 'second snapshot'}")
    kept = Policy(policy.granularity, policy.acknowledge, policy.late, policy.lost_reply)
    if policy != kept or policy.late is axes.Late.RAISE or policy.lost_reply is axes.LostReply.SAME_ATTEMPT:
        raise ValueError("handover.pml knows fewer policies")
    sizes = zip(("G", "S", "A", "SNAPSHOTS", "FAILURES", "LOST"), list(scope.sizes().values())[:6], strict=True)
    switches = {
        "GROUP": policy.granularity is axes.Granularity.PROMPT_GROUP,
        "ON_ARRIVAL": policy.acknowledge is axes.Acknowledge.ON_ARRIVAL,
        "LATE_ACK": policy.late is axes.Late.ACKNOWLEDGE,
        "FETCH": policy.lost_reply is axes.LostReply.FETCH_RECEIPT,
    }
    return [*(f"-D{name}={size}" for name, size in sizes), *(f"-D{name}" for name, on in switches.items() if on)]


def check(
    policy: Policy,
    scope: Scope,
    *,
    verdict: bool = True,
    symmetry: bool = False,
    build: tuple[str, ...] = ("-O0", "-DNOREDUCE"),
    first: bool = False,
    table: int = 24,
    limit: float = 600,
) -> Checked:
    """Explore the model with SPIN. `-o2` keeps variables that are only written: they are part of the state.

    `build` are switches of gcc. `verdict` asks for the errors, `first` stops at the first one. `table` are
    the bits of the checker's hash table. Raises TimeoutError when all of it takes longer than `limit` seconds.
    """
    extra = [f"-D{name}" for name, on in (("CHECK", verdict), ("SYMMETRY", symmetry)) if on]
    with tempfile.TemporaryDirectory() as work:
        made = measure(["spin", *defines(policy, scope), *extra, "-o2", "-a", str(HERE / "handover.pml")], work)
        if made.code or "rror" in made.output:
            raise RuntimeError(made.output)
        built = measure(
            ["gcc", *build, "-DSAFETY", "-DVECTORSZ=2048", "-DMEMLIM=8192", "-w", "-o", "pan", "pan.c"], work, limit
        )
        if built.code < 0:
            raise TimeoutError(f"gcc did not finish in {limit:.0f} s")
        if built.code:
            raise RuntimeError(built.output)
        compiling = made.seconds + built.seconds
        ran = measure(["./pan", "-E", "-c1" if first else "-c0", f"-w{table}"], work, limit - compiling)
    errors = re.search(r"errors: (\d+)", ran.output)
    if ran.code < 0 or errors is None:
        raise TimeoutError(f"pan did not finish in {limit:.0f} s")
    if "max search depth too small" in ran.output or "reached -DMEMLIM" in ran.output:
        raise RuntimeError(ran.output)
    counts = {what.split(",")[0].split(" ")[0]: round(float(n)) for n, what in COUNT.findall(ran.output)}
    taken = counts["transitions"] - 1 - int(errors[1])  # SPIN counts the initial state too, and every failed assertion
    processor = made.processor + built.processor + ran.processor
    return Checked(counts["states"], taken, int(errors[1]), compiling, ran.seconds, processor, ran.memory)


if __name__ == "__main__":
    print(check(parse(sys.argv[1]), Scope(*map(int, sys.argv[2:]))))
