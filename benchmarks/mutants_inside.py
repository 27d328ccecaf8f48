"""Inside a tree of mutants (`mutation.py`): one mutant after another takes the place of a function and meets the tests.

    python benchmarks/mutants_inside.py DIR JOBS     # the mutants of DIR/wanted.json; a line of JSON for each

One process runs every check once on the core as it is, for its time and for the lines of the core that it runs. Then
each mutant is a fork of that process. It meets the checks that run one of its lines: those first that have killed
another mutant of the function, then from the quickest to the slowest, until one fails. A check that takes ten times as
long as it should has failed too.
"""

import ast
import difflib
import importlib
import inspect
import json
import mmap
import os
import pkgutil
import re
import resource
import runpy
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

QUICK = 0.3  # seconds of a check; what survives the quick ones meets the others afterwards
MEMORY = 2 << 30  # bytes of a mutant
TESTS = ("tests/protocol", "tests/test_gym_observations.py", "tests/faults/test_lease.py")
AT_IMPORT = {  # functions that are called when their module is imported
    f"protocol.{name}"
    for name in ("checkpoint.x_at_step", *(f"system.x__{x}" for x in ("live", "of_a_group", "once", "retires", "runs")))
}
NOTHING_FOUND = "nothing"
# Checks of another kind here, what they contain (the graphs say which events are refused), a process of its own
ELSEWHERE = (
    "a_small_scope_is_as_recorded", "every_gym_answers_as_recorded", "refused_with_its_rule", "between_processes",
)  # fmt: skip


def holders() -> list[object]:
    import protocol

    modules = [importlib.import_module(f"protocol.{m.name}") for m in pkgutil.iter_modules(protocol.__path__)]
    return [protocol, *modules]


def functions(modules: list) -> dict[str, tuple[object, str, dict]]:
    """Map `module.x_name` of mutmut to where the function is: its module or class, its name there, and its mutants."""
    found = {}
    for module in modules:
        for key, value in vars(module).items():
            if key.startswith("mutants_x") and key.endswith("__mutmut"):
                mangled = key.removeprefix("mutants_").removesuffix("__mutmut")
                if "ǁ" in mangled:
                    _, cls, name = mangled.split("ǁ")
                    found[f"{module.__name__}.{mangled}"] = (getattr(module, cls), name, value)
                else:
                    found[f"{module.__name__}.{mangled}"] = (module, mangled.removeprefix("x_"), value)
    return found


def put(owner: object, name: str, new: object) -> None:
    """Put `new` in the place of a function, wherever the core, its machines or its tests hold it."""
    from attrs import evolve

    from protocol import lease
    from protocol.system import RULES

    old = vars(owner)[name]
    if isinstance(owner, type):
        setattr(owner, name, property(new) if isinstance(old, property) else new)
        return
    tree = str(Path.cwd())
    for module in list(sys.modules.values()):
        if not str(getattr(module, "__file__", None) or "").startswith(tree):
            continue
        tables = [value for value in vars(module).values() if isinstance(value, dict)]
        for table in (vars(module), *tables):
            for key, value in list(table.items()):
                if value is old:
                    table[key] = new
    changes = [tuple(new if x is old else x for x in pair) for pair in lease.CHANGES]
    lease.CHANGES = tuple(changes)
    for key, rule in list(RULES.items()):
        changed = {f: new for f in ("candidates", "guard", "apply") if getattr(rule, f) is old}
        if changed:
            RULES[key] = evolve(rule, **changed)


class Check:
    """A test, a recorded graph or a listed mutant: `run` raises when it fails. `lines` of the core run in it."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self.name, self.run, self.seconds, self.lines = name, run, 0.0, set()


def graphs() -> Iterator[Check]:
    """The recorded graphs, which here fail at their first difference."""
    from tests.protocol import test_graph_of_gym, test_graphs

    def check(told: Callable[[], Iterator[str]], expected: list[int]) -> None:
        for now, before in zip_longest(map(hash, told()), expected):
            assert now == before

    ways = {f"graph {' '.join(key)}": partial(test_graphs.told, *key) for key in test_graphs.GRAPHS}
    for name, told in {"graph of gym": test_graph_of_gym.told, **ways}.items():
        yield Check(name, partial(check, told, [hash(text) for text in told()]))


def tests(items: list) -> Iterator[Check]:
    from _pytest.runner import runtestprotocol

    def check(item: object) -> None:
        for report in runtestprotocol(item, log=False, nextitem=None):
            assert not report.failed, f"{item.nodeid}: {report.longreprtext}"

    for item in items:
        if not any(name in item.nodeid for name in ELSEWHERE):
            yield Check(item.nodeid, partial(check, item))


def listed() -> Iterator[Check]:
    """The mutants of docs/mutants.md are killed by the same findings, and what is unsafe is said in a sentence."""
    from protocol.safety import unsafe
    from protocol.state import initial
    from protocol.system import step
    from state_machines import mutants as m

    def kill(mutant: m.Mutant) -> str:
        try:
            found = m.kill(mutant)
        except AssertionError as error:
            if "the core does not use" in str(error):
                return ""  # it changes the function that is mutated
            raise
        if found is None:
            return NOTHING_FOUND
        if found.verdict.word == "unsafe":
            with m.applied(mutant):
                before = initial(mutant.policy, mutant.scope)
                for event in found.events[:-1]:
                    before = step(before, event)
                for violation in unsafe(before, found.events[-1], step(before, found.events[-1])):
                    assert len(violation.why) > 20
                    assert "None" not in violation.why
        return str(found)

    def check(mutant: m.Mutant, expected: str) -> None:
        assert kill(mutant) in ("", expected)

    for mutant in m.load().values():
        found = NOTHING_FOUND if mutant.policy is None else kill(mutant)
        if found != NOTHING_FOUND:  # mutmut renames methods: those are not swapped here
            yield Check(f"mutant {mutant.name}", partial(check, mutant, found))


def put_again(mutant: str) -> None:
    """Make the tables anew that were made at import by a function that is now a mutant."""
    from protocol import checkpoint, system

    os.environ["MUTANT_UNDER_TEST"] = mutant  # what mutmut's trampolines go by
    again = runpy.run_path("protocol/checkpoint.py", run_name="protocol.checkpoint")
    for name, value in list(vars(checkpoint).items()):
        if "<locals>" in getattr(value, "__qualname__", ""):
            put(checkpoint, name, again[name])
    again = runpy.run_path("protocol/system.py", run_name="protocol.system")
    system.RULES.update(again["RULES"])
    system.OF_A_GROUP, system.OF_NOBODY = again["OF_A_GROUP"], again["OF_NOBODY"]


def forget() -> None:
    """Empty the memos of the core, so that a mutant is asked anew."""
    for module in holders():
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def measured(checks: list[Check]) -> list[Check]:
    """Run every check on the core as it is: how long it takes, and which lines of which module of the core it runs."""
    import coverage

    for check in checks:
        forget()
        began = time.process_time()
        check.run()
        check.seconds = time.process_time() - began
    cover = coverage.Coverage(include=["protocol/*"], data_file=None)
    cover.start()
    for number, check in enumerate(checks):
        cover.switch_context(str(number))
        forget()
        check.run()
    cover.stop()
    data = cover.get_data()
    for file in data.measured_files():
        for line, numbers in data.contexts_by_lineno(file).items():
            for number in filter(None, numbers):
                checks[int(number)].lines.add((Path(file).stem, line))
    return sorted(checks, key=lambda check: check.seconds)


def source(function: Callable) -> list[str]:
    """Return the lines of a function, under the same name for every mutant of it."""
    return re.sub(r"def \w+\(", "def f(", textwrap.dedent(inspect.getsource(function)), count=1).splitlines()


def changed_lines(old: Callable, new: Callable) -> set[int]:
    """Return the lines of the statements of `old` in which `new` differs from it; all, where its first line differs."""
    codes = difflib.SequenceMatcher(None, source(old), source(new), autojunk=False).get_opcodes()
    changed = {line for tag, i, j, *_ in codes if tag != "equal" for line in range(max(0, min(i, j - 1)), j)}
    lines, first = set(), old.__code__.co_firstlineno
    tree = ast.parse("\n".join(source(old)))
    for line in (line + 1 for line in changed):
        inner = [x for x in ast.walk(tree) if isinstance(x, ast.stmt) and x.lineno <= line <= x.end_lineno]
        statement = max(inner, key=lambda x: (x.lineno, -x.end_lineno))
        body = [] if isinstance(statement, ast.FunctionDef) else getattr(statement, "body", [])
        last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
        lines |= set(range(first + statement.lineno - 1, first + last))
    return lines


def attempt(mutant: str, owner: object, name: str, new: Callable, checks: list[Check], at: mmap.mmap) -> str | None:
    """Return the first check that fails under a mutant, in a fork of this process; None: all pass."""
    at[:2] = b"\0\0"
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            put(owner, name, new)
            if mutant.rpartition("__mutmut_")[0] in AT_IMPORT:
                put_again(mutant)
            forget()
            for number, check in enumerate(checks):
                at[:2] = number.to_bytes(2, "big")
                signal.setitimer(signal.ITIMER_PROF, 3 + 10 * check.seconds)
                check.run()
        except BaseException:  # noqa: BLE001 - whatever it is, it is a failure
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status == 0:
        return None
    return checks[int.from_bytes(at[:2], "big")].name


class Loop:
    """A pytest plugin that runs mutants in the place of tests: first with the quick checks, then with the others.

    What has killed another mutant of the function comes first.
    """

    def __init__(self, wanted: list[str], known: dict[str, str], jobs: int, write: Callable[[str, str], None]) -> None:
        self.wanted, self.jobs, self.write = wanted, jobs, write
        self.kills = Counter((name.rpartition("__mutmut_")[0], how) for name, how in known.items())

    def pytest_runtestloop(self, session: object) -> bool:
        checks = measured([*graphs(), *tests(session.items), *listed()])
        print(f"{len(checks)} checks, {sum(check.seconds for check in checks):.0f} s", file=sys.stderr, flush=True)
        children = []
        for part in range(self.jobs):
            child = os.fork()
            if child == 0:
                self.work(self.wanted[part :: self.jobs], checks)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return True

    def work(self, left: list[str], checks: list[Check]) -> None:
        where, at = functions(holders()), mmap.mmap(-1, 2)
        for quick in (True, False):
            tried, left = left, []
            for mutant in tried:
                module, _, key = mutant.rpartition(".")
                of = f"{module}.{key.rpartition('__mutmut_')[0]}"
                owner, name, mutants = where[of]
                lines = {(module.partition(".")[2], x) for x in changed_lines(mutants["_mutmut_orig"], mutants[key])}
                at_import = of in AT_IMPORT
                fitting = [c for c in checks if at_import or not lines.isdisjoint(c.lines)]
                ran = bool(fitting)
                fitting = [c for c in fitting if (c.seconds < QUICK) is quick]
                if module != "protocol.lease":
                    fitting = [c for c in fitting if "test_lease.py" not in c.name]
                fitting.sort(key=lambda check: -self.kills[of, check.name])
                killer = attempt(mutant, owner, name, mutants[key], fitting, at)
                if killer is not None:
                    self.kills[of, killer] += 1
                    self.write(mutant, killer)
                elif quick:
                    left.append(mutant)
                    self.write(mutant, "left")
                else:
                    self.write(mutant, "survived" if ran else "not run")  # not run: no check comes to the line


def run_inside(work: Path, jobs: int) -> None:
    import pytest

    wanted, known = json.loads((work / "wanted.json").read_text()), json.loads((work / "results.json").read_text())
    os.chdir(work / "mutants")
    sys.path.insert(0, ".")
    os.environ.pop("MUTANT_UNDER_TEST", None)
    for owner, name, mutants in functions(holders()).values():
        put(owner, name, mutants["_mutmut_orig"])  # before anything else is imported
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def write(mutant: str, how: str) -> None:
        os.write(out, json.dumps([mutant, how]).encode() + b"\n")

    pytest.main(["-q", "-s", "-p", "no:cacheprovider", *TESTS], plugins=[Loop(wanted, known, jobs, write)])


if __name__ == "__main__":
    run_inside(Path(sys.argv[1]), int(sys.argv[2]))
