"""Keep the output in these documents true: run every command that a document shows, and write down what it prints.

    python docs/run_commands.py docs/tutorial.md docs/pictures.md      # writes them anew
    python docs/run_commands.py --check docs/tutorial.md               # exit 1 when one is stale

The `sh` blocks of a document run in their order, in one empty folder in which `docs/` is the repository's. A block of
another kind right after one is its output. `<!-- not run -->` before a block leaves it as it is. Times and counts of
a hunt, which no two machines share, do not make a document stale.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<skip><!-- not run -->\n+)?^```sh\n(?P<commands>.*?)^```\n(?:\n^```(?P<kind>\w+)\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
MEASURED = [
    (re.compile(r"\b\d[\d,]* (examples|states|transitions|verdicts of)\b"), r"N \1"),
    (re.compile(r"\b\d+(\.\d+)? ?s\b"), "N s"),
    (re.compile(r"\b\d[\d,]*(\.\d+)? (states/s|MiB|MB|states a second)"), r"N \2"),
]


def refreshed(text: str) -> str:
    """Return a document with the output of each of its commands as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "docs").symlink_to(REPOSITORY / "docs")
        return BLOCK.sub(lambda block: _block(block, Path(folder)), text)


def comparable(text: str) -> str:
    """Return a document without what differs from machine to machine."""
    for pattern, instead in MEASURED:
        text = pattern.sub(instead, text)
    return text


def _block(block: re.Match[str], folder: Path) -> str:
    if block["skip"]:
        return block[0]
    printed = "".join(run(line, folder) for line in block["commands"].splitlines() if line.strip())
    shown = f"```sh\n{block['commands']}```\n"
    if block["kind"] is None:
        return shown
    output = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    return f"{shown}\n```{block['kind']}\n{output}\n```\n"


def run(line: str, folder: Path) -> str:
    """Return what one command prints. `stranded` runs in this process; its exit code is not looked at."""
    line, redirected, target = line.partition(" > ")
    words = shlex.split(line, comments=True)
    environment = {}
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, environment[name] = words.pop(0).partition("=")
    with _inside(folder, environment):
        printed = _stranded(words[1:]) if words[0] == "stranded" else _other(words)
        if redirected:
            Path(target.strip()).write_text(printed, encoding="utf-8")
            return ""
    return printed


@contextlib.contextmanager
def _inside(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    before = os.environ.copy()
    os.environ.update(environment | {"COLUMNS": "80", "NO_COLOR": "1"})
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _stranded(arguments: list[str]) -> str:
    from state_machines.cli import main

    printed, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told), contextlib.suppress(SystemExit):
        main(arguments)
    if not printed.getvalue() and told.getvalue():
        return told.getvalue()
    return printed.getvalue()


def _other(words: list[str]) -> str:
    if words[0] == "pytest":
        words = [sys.executable, "-m", "pytest", *words[1:], "-p", "no:cacheprovider"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def main() -> int:
    check = "--check" in sys.argv
    stale = 0
    for path in (Path(word) for word in sys.argv[1:] if not word.startswith("-")):
        text = path.read_text("utf-8")
        new = refreshed(text)
        if comparable(new) == comparable(text):
            continue
        stale += 1
        if check:
            print(f"{path} is stale: python docs/run_commands.py {path}")
        else:
            path.write_text(new, "utf-8")
            print(f"{path}: written")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    sys.exit(main())
