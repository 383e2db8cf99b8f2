"""A spool that is given to the user as whom HTCondor runs jobs, which are never root's.

``python -m tests.services.given`` is the command ``classad`` with that spool.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

import attrs

from matchmaker.delegation import spool
from matchmaker.delegation.contact import Origin
from matchmaker.delegation.record import NoAnswer, Payload
from matchmaker.delegation.spool import SharedSpool
from tests.services.condor import USER


@attrs.frozen
class GivenSpool(SharedSpool):
    """A spool whose files belong to the user whose jobs they are of."""

    def prepare(
        self, key: str, attempt: int, payload: Payload, job: str = "", cluster: str = ""
    ) -> Path | NoAnswer:
        # A spool takes no directory that another account may write to, also for a second attempt.
        self._give(os.geteuid(), self.root / key)
        made = super().prepare(key, attempt, payload, job, cluster)
        self._give()
        return made

    def sign(self, key: str, attempt: int, origin: Origin) -> NoAnswer | None:
        done = super().sign(key, attempt, origin)
        self._give()
        return done

    def commit(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> NoAnswer | None:
        done = super().commit(key, attempt, seconds, length)
        self._give()
        return done

    def renew(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> NoAnswer | None:
        done = super().renew(key, attempt, seconds, length)
        self._give()
        return done

    def _give(self, owner: int | None = None, folder: Path | None = None) -> None:
        if os.getuid() == 0:
            root = self.root if folder is None else folder
            user = pwd.getpwnam(USER).pw_uid if owner is None else owner
            for place in (root, *root.rglob("*")):
                with contextlib.suppress(FileNotFoundError):
                    os.chown(place, user, -1)


if __name__ == "__main__":
    from matchmaker.cli import main

    spool.SharedSpool = GivenSpool  # type: ignore[misc]
    main()
