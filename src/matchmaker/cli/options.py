"""Options that subcommands share: decorators for several, and those of logging and of flags."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from matchmaker._limits import BATCH_LIMITS as LIMITS
from matchmaker.cli.output import warn

if TYPE_CHECKING:
    from matchmaker.batch import Mapping, Submission, Submitter

_F = TypeVar("_F", bound=Callable[..., object])


def together(*options: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Several options as one decorator; ``--help`` shows the last one first."""

    def add(command: _F) -> _F:
        for option in options:
            command = option(command)
        return command

    return add


def gathered(
    record: type, name: str, *options: Callable[[Any], Any]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """As ``together``; the command gets the values as one attrs record under a name."""
    fields = [field.name for field in attrs.fields(record)]

    def add(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def called(**values: Any) -> int:
            made = record(**{field: values.pop(field) for field in fields})
            return command(**{name: made}, **values)

        return together(*options)(called)

    return add


class FiniteRange(click.FloatRange):
    """A number in a range; NaN, which is neither below nor above, is refused, and so is infinity.

    >>> FiniteRange(min=0).convert("nan", None, None)
    Traceback (most recent call last):
    ...
    click.exceptions.BadParameter: nan is not a finite number
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse a number. Raises click.BadParameter."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


# --- logging --------------------------------------------------------------------------------------

LEVELS: Final = ("debug", "info", "warning", "error")


def logs(command: Callable[..., int]) -> Callable[..., int]:
    """Add ``--log-level``, ``--log-file`` and ``--log-json``; the library logs during the command.

    A module logs by ``logging.getLogger(__name__)``, one line an event, with its keys as
    ``extra``: ``_LOG.info("pilot submitted", extra={"queue": "q1", "pilot": "p7"})``.
    """

    @wraps(command)
    def called(
        *, log_level: str | None, log_file: str | None, log_json: bool, **values: Any
    ) -> int:
        # Each of the options asks for a log: no other one is needed with it.
        if log_level is None and log_file is None and not log_json:
            return command(**values)
        with logging_to(log_file, log_level or "info", as_json=log_json):
            return command(**values)

    return together(
        click.option("--log-json", is_flag=True, help="Log a JSON object a line."),
        click.option("--log-file", metavar="FILE",
                     help="Append the log to FILE; by default it goes to standard error."),
        click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False),
                     help="Log events of this level and above; info with the other options."),
    )(called)  # fmt: skip


@contextmanager
def logging_to(file: str | None, level: str, *, as_json: bool) -> Iterator[None]:
    """Log the library's events to a file, or to standard error. Raises OSError."""
    # Imported on call: few runs log.
    from logging.handlers import WatchedFileHandler

    # The file is opened again when a rotation has moved it.
    handler = (
        logging.StreamHandler() if file is None else WatchedFileHandler(file, encoding="utf-8")
    )
    handler.setFormatter(LogLine(as_json=as_json))
    logger = logging.getLogger("matchmaker")
    before, propagates = logger.level, logger.propagate
    logger.setLevel(level.upper())
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = propagates
        handler.close()


_USUAL: Final = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}
)
"""The attributes that every record has: the others are the keys of an event."""


class LogLine(logging.Formatter):
    """An event as one line: time in UTC, level, module, what happened, and its keys.

    >>> record = logging.LogRecord("matchmaker.x", 20, "", 0, "pilot submitted", (), None)
    >>> record.created, record.queue = 0.25, "q 1"
    >>> print(LogLine(as_json=False).format(record))
    1970-01-01T00:00:00.250Z info x: pilot submitted queue="q 1"
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without an end; a traceback is one of its keys."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        at = f"{at}.{int(record.created % 1 * 1000):03}Z"
        keys = {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            keys["traceback"] = self.formatException(record.exc_info)
        level, module = record.levelname.lower(), record.name.removeprefix("matchmaker.")
        if self._as_json:
            head = {"at": at, "level": level, "module": module, "event": record.getMessage()}
            return json.dumps(head | keys, default=str)
        # What comes from ads and commands is quoted, so that it cannot look like another event.
        words = [f"{key}={_word(value)}" for key, value in keys.items()]
        return " ".join([at, level, f"{module}:", record.getMessage(), *words])


def _word(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and text and not set(text) & set(' "=')
    return text if plain else json.dumps(text)


host_attribute_option = click.option(
    "--host-attribute", "host_attributes", multiple=True, metavar="NAME",
    help="An attribute of hosts that neither the GLUE schema nor the mapping knows.",
)  # fmt: skip


mapping_option = click.option(
    "--mapping", metavar="FILE", help="The site's own mapping to submit flags (TOML)."
)


flag_options = together(
    host_attribute_option,
    click.option(
        "--want",
        type=click.Choice(["necessary", "sufficient", "exact"]),
        default="necessary",
        show_default=True,
        help="How flags that cannot be exact may err.",
    ),
    mapping_option,
    click.option("--nodes", "nodes_file", metavar="FILE", help="Ads of the queue's worker nodes."),
)
"""``--nodes``, ``--mapping``, ``--host-attribute`` and ``--want``."""


def submitter() -> Submitter:
    """The account that runs this command, with the names of its groups, the main one first."""
    import grp
    import pwd

    from matchmaker.batch import Submitter

    def name_of(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return ""

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = ""
    names = (name_of(number) for number in (os.getegid(), *os.getgroups()))
    return Submitter(user, tuple(dict.fromkeys(filter(None, names))))


def warn_of_contradictions(script: str, made: Submission, table: Mapping) -> None:
    """Print the lines of a script that contradict its flags; skip a script that is not readable."""
    from matchmaker.batch.flags.submission import contradictions

    path = Path(script)
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            text = file.read(LIMITS.script).decode("utf-8", "replace")
    except OSError:
        return
    for line in contradictions(text, made, table):
        warn(f"{script}: {line}")
