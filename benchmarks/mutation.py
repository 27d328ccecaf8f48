"""A mutation run of mutmut over protocol/: mutmut makes the mutants, this script runs them. Not a test.

    python benchmarks/mutation.py make DIR           # a copy of the tree, and mutmut's mutants of it (two minutes)
    python benchmarks/mutation.py run DIR [-j 2]     # every mutant; writes DIR/results.json, and goes on from there
    python benchmarks/mutation.py show DIR           # the survivors as diffs
    python benchmarks/mutation.py record DIR         # the survivors into survivors.json, where each is explained
    python benchmarks/mutation.py table              # what docs/mutants.md says of them

mutmut's own runner starts pytest for each of nearly four thousand mutants, and its trampolines make every call of the
core several times slower: six hours. Here each mutant is one fork, in which mutmut's mutated function takes the place
of the original (`mutants_inside.py`). The tests are those of the suite: tests/protocol, tests/test_gym_observations.py,
every mutant of docs/mutants.md, and for lease.py test_lease.py. Mutants run in the order of a hash of their names, so
that a run cut short is a fair sample.
"""

import argparse
import difflib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SURVIVED = ("survived", "not run")
KNOWN = Path(__file__).with_name("survivors.json")
KINDS = {
    "graph": "recorded graphs",
    "tests/protocol/test_graph": "recorded graphs",
    "mutant": "the mutants above",
    "tests/test_gym_observations": "observations of Gym",
    "tests/faults/test_lease": "the lease",
}
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
        packages = ["mutmut==3.8.1", "attrs", "cattrs", "click", "coverage", "hypothesis", "pytest", "rich"]
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


def run(work: Path, jobs: int, only: str) -> None:
    python = work / "venv" / "bin" / "python"
    done = work / "results.json"
    known = json.loads(done.read_text()) if done.exists() else {}
    known = {name: how for name, how in known.items() if how not in ("left", only)}  # the others go on from there
    wanted = [name for name in names(work) if name not in known and (only in ("", *SURVIVED) or only in name)]
    wanted.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())  # so that a run cut short is a fair sample
    (work / "wanted.json").write_text(json.dumps(wanted))

    def told() -> None:
        done.write_text(json.dumps(known, indent=1))
        counts = Counter(how if how in (*SURVIVED, "left") else kind(how) for how in known.values())
        survivors = sum(counts[how] for how in SURVIVED)
        print(f"{len(known)}: {survivors / max(1, len(known)):.1%} survive", dict(counts), flush=True)

    told()
    command = [python, Path(__file__).with_name("mutants_inside.py"), work, str(jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for number, line in enumerate(process.stdout, 1):
            name, how = json.loads(line)
            known[name] = how
            if number % 50 == 0:
                told()
    told()


def changes(work: Path) -> dict[str, list[str]]:
    """Return the survivors of a run, each with the lines of its diff."""
    results = json.loads((work / "results.json").read_text())
    os.chdir(work / "mutants")
    sys.path.insert(0, ".")
    from mutants_inside import functions, holders, source

    where, found = functions(holders()), {}
    for mutant in sorted(name for name, how in results.items() if how in SURVIVED):
        module, _, key = mutant.rpartition(".")
        _, _, mutants = where[f"{module}.{key.rpartition('__mutmut_')[0]}"]
        diff = difflib.unified_diff(source(mutants["_mutmut_orig"]), source(mutants[key]), lineterm="", n=0)
        found[mutant] = [line for line in diff if line[:2] not in ("--", "++", "@@")]
    return found


def show(work: Path) -> None:
    for mutant, lines in changes(work).items():
        print(f"# {mutant}", *lines, sep="\n")


def record(work: Path) -> None:
    """Write the survivors of a run; an explanation that is there already stays."""
    old = json.loads(KNOWN.read_text()) if KNOWN.exists() else {"why": {}, "survivors": {}}
    results = json.loads((work / "results.json").read_text())
    known = {
        "mutants": len(names(work)),
        "run": len(results),
        "killed": dict(sorted(Counter(kind(how) for how in results.values() if how not in SURVIVED).items())),
        "why": old["why"],
        "survivors": {},
    }
    for name, lines in changes(work).items():
        change = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
        known["survivors"][name] = {"change": change, "why": old["survivors"].get(name, {}).get("why", "")}
    KNOWN.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(known['survivors'])} survivors, in {KNOWN}")


def kind(how: str) -> str:
    """Return what killed a mutant, in the words of the document."""
    return next((words for word, words in KINDS.items() if how.startswith(word)), "rows and sentences of the protocol")


def table() -> str:
    """Return what docs/mutants.md says of the survivors, from survivors.json."""
    known = json.loads(KNOWN.read_text())
    killed = ", ".join(f"{words} {count:,}" for words, count in known["killed"].items())
    survivors = known["survivors"].items()
    said = (
        f"Of mutmut's {known['mutants']:,} mutants {known['run']:,} were run, and {len(survivors)} survive "
        f"({len(survivors) / known['run']:.1%}). What killed the others: {killed}."
    )
    rows = ["| function | the mutant | why it survives |", "|---|---|---|"]
    for name, found in survivors:
        function = name.removeprefix("protocol.").rpartition("__mutmut_")[0].replace(".x_", ".").replace(".xǁ", ".")
        change = found["change"].replace("|", "\\|")
        rows.append(f"| `{function.replace('ǁ', '.')}` | `{change}` | {known['why'][found['why']]} |")
    return "\n".join([said, "", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["make", "run", "show", "record", "table"])
    parser.add_argument("dir", type=Path, nargs="?", default=".")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="a part of the mutants' names, or `survived` for those of the last run"
    )
    given = parser.parse_args()
    work = given.dir.resolve()
    if given.action == "run":
        run(work, given.jobs, given.only)
    elif given.action == "table":
        print(table())
    else:
        {"make": make, "show": show, "record": record}[given.action](work)


if __name__ == "__main__":
    main()
