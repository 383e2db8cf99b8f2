"""Slurm's own accounting for a controller of a test: ``slurmdbd`` on a private MariaDB."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.services.daemons import ServiceUnavailable, daemon, free_port, program, wait
from tests.services.slurm import SlurmOracle

_DATABASE = """\
CREATE DATABASE slurm;
CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'secret';
GRANT ALL ON slurm.* TO slurm@'127.0.0.1';
"""

_SETTINGS = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=secret
StorageLoc=slurm
"""


@contextlib.contextmanager
def mariadb(folder: Path) -> Iterator[int]:
    """Runs a MariaDB with its files in a folder, for ``slurmdbd`` alone; gives its port."""
    data, socket, port = folder / "mariadb", folder / "mariadb.socket", free_port()
    install = [
        program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--user=root",
        "--auth-root-authentication-method=normal", "--skip-test-db",
    ]  # fmt: skip
    made = subprocess.run(install, capture_output=True, text=True, check=False, timeout=120)
    if made.returncode:
        raise ServiceUnavailable(f"mariadb-install-db: {made.stderr[-500:]}")
    argv = [
        program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--socket={socket}",
        f"--port={port}", "--bind-address=127.0.0.1", "--user=root", "--skip-log-bin",
        "--innodb-buffer-pool-size=32M", f"--pid-file={folder}/mariadb.pid",
    ]  # fmt: skip
    client = [program("mariadb"), "--no-defaults", f"--socket={socket}", "--user=root"]

    def answers() -> bool:
        return subprocess.run([*client, "-e", "SELECT 1"], capture_output=True, check=False,
                              timeout=30).returncode == 0  # fmt: skip

    with daemon(argv, folder / "mariadb.log") as process:
        wait(answers, process, folder / "mariadb.log")
        subprocess.run(client, input=_DATABASE, text=True, check=True, timeout=30)
        yield port


@contextlib.contextmanager
def accounting(oracle: SlurmOracle) -> Iterator[subprocess.Popen[bytes]]:
    """Runs ``slurmdbd`` for a controller that has not started yet; gives its process."""
    folder, port = oracle.folder, free_port()
    with mariadb(folder) as database:
        settings = folder / "slurmdbd.conf"
        settings.write_text(_SETTINGS.format(folder=folder, port=port, database=database))
        settings.chmod(0o600)
        conf = folder / "slurm.conf"
        stored = (
            f"AccountingStorageType=accounting_storage/slurmdbd\n"
            f"AccountingStorageHost=127.0.0.1\nAccountingStoragePort={port}\n"
            f"AccountingStoragePass={folder}/munge/socket\n"
        )
        conf.write_text(
            conf.read_text().replace("AccountingStorageType=accounting_storage/none\n", stored)
        )

        def knows() -> bool:
            done = subprocess.run(
                [program("sacctmgr"), "-i", "-Q", "add", "cluster", "matchmaker"],
                capture_output=True, text=True, check=False, env=oracle.environment, timeout=60,
            )  # fmt: skip
            return done.returncode == 0 or "already exists" in done.stdout

        log = folder / "slurmdbd.log"
        with daemon([program("slurmdbd"), "-D"], log, oracle.environment) as process:
            wait(knows, process, log)
            yield process
