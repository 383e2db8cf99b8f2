"""The ``classad`` command: one module a subcommand, loaded when it is called.

Nothing but arguments and output lives here. Exit status: 0 yes, 1 no match, 2 bad input, with one
line on standard error.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command with the process's arguments, and exits."""
    # Click and rich are loaded here, and not with the package.
    import click

    from matchmaker.cli.group import classad

    if sys.stdout is None:
        sys.exit(_fail("standard output is closed", 2))
    try:
        status = classad.main(standalone_mode=False, prog_name="classad")
    except click.exceptions.Abort:
        status = _fail("interrupted", 130)
    except click.ClickException as error:
        status = _fail(error.format_message(), 2)
    except BrokenPipeError:
        # Whoever read the output has gone; Python must not complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        from matchmaker.cli.output import complaint

        status = _fail(complaint(error), 2)
    except _refusals() as error:
        status = _fail(str(error), 1)
    except (ValueError, RecursionError, MemoryError) as error:
        from matchmaker import ParseError

        text = error.summary() if isinstance(error, ParseError) else str(error)
        status = _fail(text or type(error).__name__, 2)
    sys.exit(status if isinstance(status, int) else 0)


def _refusals() -> tuple[type[Exception], ...]:
    """The errors that mean no. They are looked up when there is one, not at every start."""
    from matchmaker.batch import NoFlagsError
    from matchmaker.cli.queues import NoMatchError

    return NoFlagsError, NoMatchError


def _fail(message: str, status: int) -> int:
    from matchmaker.cli.output import printable

    if sys.stderr is not None:
        print(f"classad: {printable(' '.join(message.split()))}", file=sys.stderr)
    return status
