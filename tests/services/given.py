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
from matchmaker.delegation.observation import Silence
from matchmaker.delegation.record import Payload
from matchmaker.delegation.spool import SharedSpool
from tests.services.condor import USER


@attrs.frozen
class GivenSpool(SharedSpool):
    """A spool whose files belong to the user whose jobs they are of."""

    def prepare(
        self, key: str, attempt: int, payload: Payload, job: str = "", cluster: str = ""
    ) -> Path | Silence:
        made = super().prepare(key, attempt, payload, job, cluster)
        self._give()
        return made

    def sign(self, key: str, attempt: int, origin: Origin) -> Silence | None:
        done = super().sign(key, attempt, origin)
        self._give()
        return done

    def commit(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> Silence | None:
        done = super().commit(key, attempt, seconds, length)
        self._give()
        return done

    def renew(
        self, key: str, attempt: int, seconds: float, length: float | None = None
    ) -> Silence | None:
        done = super().renew(key, attempt, seconds, length)
        self._give()
        return done

    def _give(self) -> None:
        if os.getuid() == 0:
            user = pwd.getpwnam(USER)
            for place in (self.root, *self.root.rglob("*")):
                with contextlib.suppress(FileNotFoundError):
                    os.chown(place, user.pw_uid, user.pw_gid)


if __name__ == "__main__":
    from matchmaker.cli import main

    spool.SharedSpool = GivenSpool  # type: ignore[misc]
    main()
