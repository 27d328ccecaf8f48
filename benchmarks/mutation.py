"""A mutation run of mutmut over protocol/: mutmut makes the mutants, this script runs them. Not a test.

    python benchmarks/mutation.py make DIR           # a copy of the tree, and mutmut's mutants of it (two minutes)
    python benchmarks/mutation.py run DIR [-j 2]     # every mutant; prints the survivors, writes DIR/results.json
    python benchmarks/mutation.py show DIR           # the survivors as diffs

mutmut's own runner starts pytest for each of nearly four thousand mutants, and its trampolines make every call of the
core several times slower: six hours. Here each mutant is one fork, in which mutmut's mutated function takes the place
of the original; the tests of the core run from the quickest to the slowest, and the first that fails kills it. They are
those of the suite: tests/protocol, tests/test_gym_observations.py, every mutant of docs/mutants.md, and test_lease.py.
Mutants run in the order of a hash of their names, so that a run cut short is a fair sample.
"""

import argparse
import contextlib
import difflib
import gzip
import hashlib
import importlib
import inspect
import io
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIMEOUT = 40  # seconds of CPU; the whole of the tests takes half of that
CONFIG = """
[project]
name = "mutated"
version = "0"
[tool.pytest.ini_options]
addopts = ["-p", "no:cacheprovider"]
[tool.mutmut]
source_paths = ["protocol"]
also_copy = ["state_machines", "tests", "docs", "conftest.py"]
pytest_add_cli_args_test_selection = ["tests/protocol/test_system.py::test_every_policy_survives_its_spelling"]
use_git_change_detection = false
"""


def make(work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
        packages = ["mutmut==3.8.1", "attrs", "cattrs", "click", "hypothesis", "pytest", "rich"]
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    for part in ("protocol", "state_machines", "tests", "docs", "mutants"):
        shutil.rmtree(work / part, ignore_errors=True)
        if part != "mutants":
            shutil.copytree(ROOT / part, work / part)
    (work / "conftest.py").write_text("")
    (work / "pyproject.toml").write_text(CONFIG)
    subprocess.run([python, "-m", "mutmut", "run", "no.such.mutant"], cwd=work, capture_output=True, check=False)
    print(f"{len(names(work))} mutants in {work / 'mutants'}")


def names(work: Path) -> list[str]:
    found = []
    for meta in sorted((work / "mutants" / "protocol").glob("*.meta")):
        found += json.loads(meta.read_text())["exit_code_by_key"]
    return found


# What follows runs inside the tree of mutants


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
        for key, value in list(vars(module).items()):
            if value is old:
                setattr(module, key, new)
    changes = [tuple(new if x is old else x for x in pair) for pair in lease.CHANGES]
    lease.CHANGES = tuple(changes)
    for key, rule in list(RULES.items()):
        changed = {f: new for f in ("candidates", "guard", "apply") if getattr(rule, f) is old}
        if changed:
            RULES[key] = evolve(rule, **changed)
    from protocol import events

    readers = events._READERS  # noqa: SLF001
    for key, value in readers.items():
        if value is old:
            readers[key] = new


def observations(limit: int):
    from tests import test_gym_observations as o

    with gzip.open(o.DATA, "rt", encoding="ascii") as lines:
        records = [json.loads(line) for _, line in zip(range(limit), lines, strict=False)]

    def check() -> None:
        for record in records:
            gym, calls = o.Gym(), {}
            for step in record["steps"]:
                outcome = o.perform(gym, step)
                expected = {key: value for key, value in step.items() if key not in o.ASKED}
                assert o.observed(step, outcome, calls) == expected
                gym = outcome.gym

    return check


def graphs():
    from tests.protocol.test_graphs import GRAPHS, fingerprint

    def check() -> None:
        for key, expected in sorted(GRAPHS.items(), key=lambda item: item[1]):
            assert fingerprint(*key) == expected

    return check


def suite(*arguments: str):
    import pytest

    def check() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert pytest.main(["-x", "-q", "-p", "no:cacheprovider", *arguments]) == 0

    return check


def listed():
    """The mutants of docs/mutants.md are killed by the same findings."""
    from state_machines import mutants as m

    known = [(x, m.kill(x)) for x in m.load().values() if x.policy is not None]
    known = [(x, k) for x, k in known if k is not None]  # mutmut renames methods: those are not swapped here

    def check() -> None:
        for mutant, expected in known:
            try:
                found = m.kill(mutant)
            except AssertionError as error:
                if "the core does not use" in str(error):
                    continue  # it changes the function that is mutated
                raise
            assert found is not None
            assert str(found) == str(expected)

    return check


def run_inside(work: Path, wanted: list[str], part: int, of: int) -> None:
    os.chdir(work / "mutants")
    sys.path.insert(0, ".")
    os.environ.pop("MUTANT_UNDER_TEST", None)
    modules = holders()
    where = functions(modules)
    for owner, name, mutants in where.values():
        put(owner, name, mutants["_mutmut_orig"])
    quick = "not agree and not test_every_enabled and not universe and not kind_of_event and not bounds_prune"
    checks = {
        "graphs": graphs(),
        "observations": observations(60),
        "tests": suite("tests/protocol", "tests/test_gym_observations.py", "-k", f"{quick} and not test_graphs"),
        "mutants": listed(),
        "sentences": suite("tests/faults/test_mutants.py", "-k", "sentence"),
        "lease": suite("tests/faults/test_lease.py"),
    }
    for check in checks.values():
        check()
    for number, mutant in enumerate(wanted):
        if number % of != part:
            continue
        module, _, key = mutant.rpartition(".")
        owner, name, mutants = where[f"{module}.{key.rpartition('__mutmut_')[0]}"]
        child = os.fork()
        if child == 0:
            signal.setitimer(signal.ITIMER_PROF, TIMEOUT)
            put(owner, name, mutants[key])
            variant = module == "protocol.lease"
            for code, (kind, check) in enumerate(checks.items(), 1):
                if variant is not (kind == "lease"):
                    continue
                try:
                    check()
                except BaseException:  # noqa: BLE001 - whatever it is, it is a failure
                    os._exit(code)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        killed = "survived" if code == 0 else "timeout" if code < 0 else list(checks)[code - 1]
        print(json.dumps([mutant, killed]), flush=True)


def run(work: Path, jobs: int, only: str) -> None:
    python = work / "venv" / "bin" / "python"
    done = work / "results.json"
    known = json.loads(done.read_text()) if done.exists() else {}
    known = {name: how for name, how in known.items() if how not in ("timeout", only)}  # the others go on from there
    wanted = [name for name in names(work) if name not in known and (only in ("", "survived") or only in name)]
    wanted.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())  # so that a run cut short is a fair sample
    (work / "wanted.json").write_text(json.dumps(wanted))

    def worker(part: int) -> None:
        command = [python, __file__, "inside", work, "--part", str(part), "-j", str(jobs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                name, how = json.loads(line)
                known[name] = how
                if len(known) % 50 == 0:
                    done.write_text(json.dumps(known, indent=1))
                    print(len(known), dict(Counter(known.values())), flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(worker, range(jobs)))
    done.write_text(json.dumps(known, indent=1))
    counts = Counter(known.values())
    print(len(known), dict(counts), f"{counts['survived'] / max(1, len(known)):.1%} survive")


def show(work: Path) -> None:
    os.chdir(work / "mutants")
    sys.path.insert(0, ".")
    where = functions(holders())
    results = json.loads((work / "results.json").read_text())
    for mutant in sorted(name for name, how in results.items() if how == "survived"):
        module, _, key = mutant.rpartition(".")
        _, _, mutants = where[f"{module}.{key.rpartition('__mutmut_')[0]}"]
        old, new = (inspect.getsource(mutants[k]).splitlines()[1:] for k in ("_mutmut_orig", key))
        print(f"# {mutant}")
        print(
            "\n".join(
                line for line in difflib.unified_diff(old, new, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["make", "run", "show", "inside"])
    parser.add_argument("dir", type=Path)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="a part of the mutants' names, or `survived` for those of the last run"
    )
    parser.add_argument("--part", type=int, default=0)
    given = parser.parse_args()
    work = given.dir.resolve()
    if given.action == "make":
        make(work)
    elif given.action == "run":
        run(work, given.jobs, given.only)
    elif given.action == "show":
        show(work)
    else:
        run_inside(work, json.loads((work / "wanted.json").read_text()), given.part, given.jobs)


if __name__ == "__main__":
    main()
