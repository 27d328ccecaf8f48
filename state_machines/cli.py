"""The `stranded` command: every way in which it can end.

Exit codes: 0 nothing found (or: the recorded verdict came out again), 1 findings, 2 bad usage or a file that cannot be
used, 3 unknown, 130 interrupted, 141 the reader of a pipe went away. Bad input is one sentence on standard error, never
a traceback. Everything is imported inside, so that Ctrl-C ends in a sentence from the first moment on.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

EXTRAS = {
    "fastapi": "http",
    "uvicorn": "http",
    "httpx": "http",
    "jinja2": "report",
    "ray": "ray",
    "redis": "redis",
}


def main(arguments: "list[str] | None" = None) -> "NoReturn":
    """Run the command and exit. Every error that a user can cause is one sentence and exit code 2."""
    try:
        from state_machines import interrupt

        # Nothing here does linear algebra, and numpy comes in half the time when it starts no threads for it.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with interrupt.noticed():
            _run(arguments)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # the cursor, which a progress line hides
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def _run(arguments: "list[str] | None") -> "NoReturn":
    import io

    import click

    from state_machines.commands.group import stranded

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an output that lacks a glyph still gets the rest
    try:
        code = stranded.main(args=arguments, prog_name="stranded", standalone_mode=False)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        _end(error.format_message())
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _end(f"this needs {error.name}, which is not installed: pip install 'stranded[{extra}]'")
    except OSError as error:
        where = f"{error.filename!s:.80}: " if error.filename else ""
        _end(f"{where}{error.strerror or error}")
    except UnicodeError as error:
        _end(f"a name or a URL that cannot be written: {error!s:.120}")
    except ValueError as error:
        if not isinstance(error, _bad_input()):
            raise
        _end(str(error))
    except SystemExit:
        if type(sys.stdout).__name__.endswith("PacifyFlushWrapper"):
            sys.exit(141)  # the reader of a pipe went away: nobody saw a verdict
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _bad_input() -> "tuple[type[ValueError], ...]":
    """Return the errors about what was given. To ask for them only when there is an error saves their import."""
    from protocol.policy import PolicyError
    from protocol.scope import ScopeError
    from state_machines.trace import TraceError

    return TraceError, PolicyError, ScopeError


def _end(sentence: str) -> "NoReturn":
    sys.stderr.write(f"stranded: {sentence}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
