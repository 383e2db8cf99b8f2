"""Runs a batch system's own commands."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from matchmaker.batch.description.texts import DescriptionError
from matchmaker.batch.limits import LIMITS
from matchmaker.batch.programs import NoProgramError, ProgramError, run


def ask(argv: Sequence[str]) -> str:
    """The output of a command in the C locale.

    Raises DescriptionError if it is not installed, fails, prints too much or takes too long.

    >>> ask(["printf", "%s", "n1"])
    'n1'
    """
    name = argv[0]
    try:
        ended = run(
            argv,
            seconds=LIMITS.describe_seconds,
            most=LIMITS.describe_output,
            env={**os.environ, "LC_ALL": "C"},
        )
    except NoProgramError:
        raise DescriptionError(
            f"{name}: no such command here; save elsewhere what {shlex.join(argv)!r} and the"
            " others print, and give the files (--saved)"
        ) from None
    except ProgramError as error:
        raise DescriptionError(f"{name}: {error}") from None
    if ended.status != 0:
        lines = ended.complaint.decode("utf-8", "replace").split("\n")
        said = "; ".join(line.strip() for line in lines if line.strip())[: LIMITS.complaint]
        raise DescriptionError(
            f"{' '.join(argv)}: it failed with status {ended.status}: {said or 'silent'}"
        )
    return ended.output.decode("utf-8", "replace")
