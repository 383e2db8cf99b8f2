"""The ``classad`` command: one module for each subcommand, loaded on call.

Nothing but arguments and output lives here. Exit status: 0 yes, 1 no match, 2 bad input, with one
line on standard error.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import click


class Screen(io.TextIOWrapper):
    """A terminal that shows text and obeys none of it: whatever is printed may come from an ad.

    ``terminal`` is the stream for escape sequences of our own, such as Rich's.
    """

    def __init__(self, terminal: TextIO) -> None:
        super().__init__(
            terminal.buffer, terminal.encoding, terminal.errors, write_through=True,
            line_buffering=True,
        )  # fmt: skip
        self.terminal = terminal

    def write(self, text: str) -> int:
        """Write text; control characters and marks of direction, which show nothing, as ``?``."""
        shown = text.isprintable() or "".join(
            char if char.isprintable() or char in "\n\t" else "?" for char in text
        )
        super().write(text if shown is True else shown)
        return len(text)


def main() -> None:
    """Run the command with the process's arguments, and exit."""
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = Screen(sys.stdout)
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr = Screen(sys.stderr)
    # NumPy's linear algebra is not used, and its threads take 30 MB each.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = _status()
    except Exception as error:
        if not _out_of_memory(error):
            raise
        # Nothing is imported for it: there may be no room.
        said = "classad: out of memory; raise the limit (ulimit -v) or give less at once"
        if sys.stderr is not None:
            print(said, file=sys.stderr)
        status = 2
    sys.exit(status)


def _status() -> int:
    """Run the command, and return its exit status; errors go to standard error."""
    # Loaded on call: the package itself stays light.
    import click

    from matchmaker.cli.group import ReaderGoneError, classad

    if sys.stdout is None:
        return _fail("standard output is closed", 2)
    for word in sys.argv:
        if "\0" in word:
            return _fail(f"an argument holds a null byte; leave it out: {word[:60]}", 2)
    try:
        status = classad.main(standalone_mode=False, prog_name="classad")
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.ClickException as error:
        return _fail(f"{error.format_message()}{_option_of(error)}", 2)
    except ReaderGoneError:
        # Who reads the first lines and goes, as `head` does, has what was asked for. Python would
        # complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ImportError as error:
        if _out_of_memory(error) or not (missing := _missing(error)):
            raise
        return _fail(missing, 2)
    except OSError as error:
        if _out_of_memory(error):
            raise
        from matchmaker.cli.output import complaint

        return _fail(complaint(error), 2)
    except _refusals() as error:
        return _fail(str(error), 1)
    except (ValueError, RecursionError) as error:
        if _out_of_memory(error):
            raise
        from matchmaker import ParseError

        text = error.summary() if isinstance(error, ParseError) else str(error)
        return _fail(text or type(error).__name__, 2)
    return status if isinstance(status, int) else 0


def _option_of(error: click.ClickException) -> str:
    """The option for a file that a subcommand takes no argument for, if it may be of queues."""
    context: click.Context | None = getattr(error, "ctx", None)
    known = [] if context is None else [n for each in context.command.params for n in each.opts]
    if "--ldif" not in known or not error.message.startswith("Got unexpected extra argument"):
        return ""
    extra = error.message.partition("(")[2].removesuffix(")")
    return f"; queues are named by an option: --ldif {extra} a dump of GLUE, --ce {extra} their ads"


_EXTRAS = {
    "sqlalchemy": "delegation", "psycopg": "postgresql", "prometheus_client": "factory",
    "pyarrow": "arrow", "matplotlib": "plots", "obstore": "objects", "paramiko": "sftp",
    "requests": "webdav", "dask": "shards", "distributed": "shards",
}  # fmt: skip
"""The extra that installs a library."""


def _missing(error: ImportError) -> str:
    """Say which extra to install for a missing library; empty for any other error."""
    if "pip install" in str(error) and error.name != "sqlalchemy":
        return str(error)
    library = (error.name or "").partition(".")[0]
    # A factory has an extra of its own, with all that it needs.
    extra = "factory" if sys.argv[1:2] == ["factory"] else _EXTRAS.get(library)
    if library not in _EXTRAS or extra is None:
        return ""
    return f"{sys.argv[1]} needs {library}: pip install 'classad-matchmaker[{extra}]'"


def _refusals() -> tuple[type[Exception], ...]:
    """The errors that mean no. Only loaded modules can have raised one."""
    names = (
        ("matchmaker.batch", "NoFlagsError"),
        ("matchmaker.cli.queues", "NoMatchError"),
        ("matchmaker.delegation.states", "NotPossibleError"),
        ("matchmaker.pilots.wire.connect", "NoSlotError"),
    )
    return tuple(getattr(sys.modules[name], error) for name, error in names if name in sys.modules)


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, means that memory is used up.

    Python raises SystemError if it could not even make a MemoryError, and ImportError for a library
    of C without room. It may also raise SyntaxError for a sound module that it had no room to
    compile.
    """
    while error is not None:
        # XML that is broken raises a subclass of SyntaxError.
        if isinstance(error, (MemoryError, SystemError)) or type(error) is SyntaxError:
            return True
        if getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if isinstance(error, ImportError) and "map segment" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fail(message: str, status: int) -> int:
    from matchmaker.classad.errors import printable

    if sys.stderr is not None:
        print(f"classad: {printable(' '.join(message.split()))}", file=sys.stderr)
    return status
