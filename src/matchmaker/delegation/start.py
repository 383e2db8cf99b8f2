"""Renders the script that a batch system starts: it guards the payload with records in a directory.

The script is ``start.sh`` beside this module, in POSIX sh. It starts the payload only with a record
of the commit and a lease that lasts, and only if it wins the exclusive record of the start; it
passes signals on, ends the payload when the lease is over, and leaves a record of the end. The
records themselves are those of :mod:`matchmaker.delegation.spool`.
"""

from __future__ import annotations

import re
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Final

from matchmaker.delegation.record import Invocation

REFUSED: Final = 75
"""Exit status of a job that found no commit, a lease that is over, or another start."""

NO_SPOOL: Final = 78
"""Exit status of a job that cannot use the directory with the records."""


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_exports(call: Invocation) -> None:
    """Raises ValueError if an exported variable has no name of a shell's variable."""
    for name, _ in call.exports:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is no name of a variable: letters, digits and _")


def render(room: Path, invocation: Invocation | None = None, *, grace: int = 10) -> str:
    r"""The script that starts the payload in a directory of records.

    Args:
        room: the directory, by the path that nodes know it by.
        invocation: how the payload is called; by default without arguments, where the batch system
            starts it.
        grace: seconds between the first signal and the last when the lease is over.

    Raises:
        ValueError: an exported variable has no name of a shell's variable.

    >>> "room='/shared/my spool/k7/1'" in render(Path("/shared/my spool/k7/1"))
    True
    >>> text = render(Path("/s"), Invocation(arguments=("a b", "$x"), exports=(("LANG", "C d"),)))
    >>> "payload\" 'a b' '$x'\n" in text, "export LANG='C d'" in text
    (True, True)
    """
    call = invocation if invocation is not None else Invocation()
    check_exports(call)
    text = files("matchmaker.delegation").joinpath("start.sh").read_text("utf-8")
    slots = {
        "ROOM": shlex.quote(str(room)),
        "GRACE": str(int(grace)),
        "DIRECTORY": shlex.quote(call.directory),
        "UMASK": shlex.quote(call.umask),
        "STDIN": shlex.quote(call.stdin),
        "STDOUT": shlex.quote(call.stdout),
        "STDERR": shlex.quote(call.stderr),
        "EXPORTS": "\n".join(f"export {name}={shlex.quote(text)}" for name, text in call.exports),
        "ARGUMENTS": "".join(f" {shlex.quote(each)}" for each in call.arguments),
    }
    # At once: what one slot holds may look like another.
    return re.sub(r"@([A-Z]+)@", lambda slot: slots[slot[1]], text)
