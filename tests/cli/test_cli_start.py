"""What a proof loads, and how its result reaches a file or pipe: most of the time of a small one is its start."""

import os
import re
import subprocess
import sys

import pytest

from state_machines import cli
from state_machines.cli import main

PROVE = ("prove", "prompt_group_refused")
LIBRARIES = ("cattrs", "hypothesis", "pytest", "rich")
OURS = ("designs", "machine", "mutants", "replay", "report", "search", "settling", "trace")
UNUSED = (*LIBRARIES, *(f"state_machines.{name}" for name in OURS))
LOADED = """
import atexit, sys
from state_machines.cli import main
atexit.register(lambda: sys.stderr.write(" ".join(sys.modules)))
main(sys.argv[1:])
"""


@pytest.fixture
def plain(monkeypatch):
    """Run where nothing asks for colours."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_proof_loads_nothing_that_it_does_not_use(plain, flags):
    run = subprocess.run([sys.executable, "-c", LOADED, *PROVE, *flags], capture_output=True, text=True)
    assert run.returncode == 0
    assert {"numpy", "state_machines.prove"} <= set(loaded := run.stderr.split())
    assert [name for name in UNUSED if name in loaded] == []


def test_a_proof_in_a_file_has_the_words_of_one_on_a_terminal(plain, capsys, monkeypatch):
    def words():
        with pytest.raises(SystemExit):
            main(["prove", "prompt_group", "--groups", "1", "--siblings", "2"])
        printed = re.sub("\x1b\\[[0-9;]*m", "", text := capsys.readouterr().out)
        return re.sub("[0-9.]+ s, [0-9,]+ MiB", "", printed), "\x1b" in text

    in_a_file, coloured = words()
    assert not coloured
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert words() == (in_a_file, True)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_proof_that_nobody_reads_ends_with_141(plain, flags):
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run([sys.executable, "-m", "state_machines", *PROVE, *flags], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (run.returncode, run.stderr) == (141, b"")


@pytest.mark.parametrize(("terminal", "said"), [(True, "\x1b[?25hinterrupted\n"), (False, "interrupted\n")])
def test_an_interrupt_gives_the_terminal_its_cursor_back(monkeypatch, capsys, terminal, said):
    def run(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", run)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with pytest.raises(SystemExit) as end:
        main(["prove"])
    assert end.value.code == 130
    assert capsys.readouterr().err == said
