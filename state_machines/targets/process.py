"""The reference Gym as a process of ours: started, waited for, and ended whatever happens to either side."""

import contextlib
import os
import secrets
import select
import subprocess
import sys
import time
from typing import Final

from state_machines.targets.base import TargetError

START_SECONDS: Final = 30.0
END_SECONDS: Final = 5.0
TOKEN_ENV: Final = "STRANDED_TOKEN"  # noqa: S105 - the name of a variable


class ReferenceGym:
    """A reference Gym on a free port of loopback, with a token of its own.

    The process holds the reading end of a pipe of ours and ends when that closes: also when this process is killed.
    """

    def __init__(self, defect: str | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        command = [sys.executable, "-m", "state_machines", "gym", "--port", "0", "--with-parent"]
        if defect is not None:
            command += ["--defect", defect]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, TOKEN_ENV: self.token},
            start_new_session=True,  # Ctrl-C at the terminal is ours to handle
        )
        try:
            self.url = self._address()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def _address(self) -> str:
        """Wait for the line with the URL."""
        stdout, line = self._process.stdout, b""
        assert stdout is not None
        end = time.monotonic() + START_SECONDS
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([stdout], [], [], max(0.0, end - time.monotonic()))
            if not readable:
                raise TargetError(f"the reference Gym did not start within {START_SECONDS:g} s")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                raise TargetError(f"the reference Gym ended with code {self._process.wait()} before it had started")
            line += chunk
        return line.decode("ascii").strip()

    def close(self) -> None:
        """End the process, gently and then not. May be called twice."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
                return
