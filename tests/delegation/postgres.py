"""A PostgreSQL of the tests' own, in the foreground, on a socket in its folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.services.daemons import PATH, ServiceUnavailable, daemon, wait


def _program(name: str) -> str:
    """Debian keeps the server's programs apart, by version."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), PATH]))
    if found is None:
        raise ServiceUnavailable(f"{name} not found (`make test` installs it where it may)")
    return found


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root; Debian's package makes a user for it."""
    if os.geteuid() != 0:
        return []
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        raise ServiceUnavailable("no user postgres, and root may not run it") from None
    setpriv = shutil.which("setpriv", path=PATH)
    if setpriv is None:
        raise ServiceUnavailable("setpriv not found")
    return [setpriv, "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Runs a server; gives the URL of its database."""
    with cluster() as folder, served(folder) as url:
        yield url


@contextlib.contextmanager
def cluster() -> Iterator[Path]:
    """The folder of a new database, which no server runs on."""
    user = _as_user()
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if user:
            shutil.chown(folder, "postgres", "postgres")
        done = subprocess.run(
            [*user, _program("initdb"), "-D", str(folder / "data"), "-U", "tests", "--auth=trust",
             "--no-sync", "--locale=C", "-E", "UTF8"],
            capture_output=True, text=True, check=False, cwd="/",
        )  # fmt: skip
        if done.returncode:
            raise ServiceUnavailable(f"initdb: {done.stderr.strip()[-500:]}")
        yield folder


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Runs a server on a folder, and kills it at the end; gives the URL of its database."""
    argv = [*_as_user(), _program("postgres"), "-D", str(folder / "data"), "-k", str(folder),
            "-c", "listen_addresses=", "-c", "fsync=off"]  # fmt: skip

    def ready() -> bool:
        asked = [_program("pg_isready"), "-q", "-h", str(folder)]
        return subprocess.run(asked, check=False).returncode == 0

    log = folder / "postgres.log"
    end = time.monotonic() + 30
    with contextlib.ExitStack() as started:
        while True:
            try:
                wait(ready, started.enter_context(daemon(argv, log)), log)
                break
            except ServiceUnavailable as error:
                # What a killed server left ends a moment after it.
                if "shared memory" not in str(error) or time.monotonic() > end:
                    raise
                started.close()
                time.sleep(0.1)
        yield f"postgresql://tests@/postgres?host={folder}"
