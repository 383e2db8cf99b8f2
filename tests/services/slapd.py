r"""A real LDAP server that publishes a GLUE tree, as a BDII does.

`slapd` runs with the GLUE schemas that Debian's ``glue-schema`` installs, in the foreground, as a
child of the test process: on a free loopback port, in a private temporary folder, stopped through
its process object. Its database is filled offline with ``slapadd``, which checks every entry
against the schema and complains where a parent is missing.

The fixture `slapd` is a factory and remembers its servers until the module's tests end::

    def test_search(slapd):
        url = slapd("dn: o=grid\nobjectClass: organization\no: grid\n")
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

# Debian installs the server where ordinary users do not look.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_SCHEMA = Path("/etc/ldap/schema")
# In this order: each uses what came before.
_SCHEMAS = (
    *("core", "cosine", "nis"),
    *("Glue-CORE", "Glue-MDS", "Glue-CE", "Glue-CESEBind", "Glue-SE", "GLUE20"),
)
_MODULES = (Path("/usr/lib/ldap"), Path("/usr/lib64/openldap"), Path("/usr/libexec/openldap"))
_START_SECONDS = 20.0
_STOP_SECONDS = 20.0
_ATTEMPTS = 5

_DATABASE = """\
database mdb
suffix "o=grid"
rootdn "o=grid"
directory {folder}/grid
maxsize 104857600
dbnosync
index objectClass eq,pres
index GlueCEUniqueID eq
"""


class UnavailableError(Exception):
    """What this machine lacks to run the server."""


def _program(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise UnavailableError(f"{name} is not installed")
    return found


def _configuration(folder: Path) -> str:
    lines = []
    for name in _SCHEMAS:
        file = _SCHEMA / f"{name}.schema"
        if not file.exists():
            raise UnavailableError(f"{file} is not installed")
        lines.append(f"include {file}")
    modules = next((path for path in _MODULES if list(path.glob("back_mdb*"))), None)
    if modules is not None:  # elsewhere the backend is built in
        lines += [f"modulepath {modules}", "moduleload back_mdb"]
    lines += [f"pidfile {folder}/slapd.pid", f"argsfile {folder}/slapd.args", "sizelimit unlimited"]
    return "\n".join(lines) + "\n" + _DATABASE.format(folder=folder)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def _serving(server: str, configuration: Path, folder: Path) -> Iterator[str]:
    """Run the server; a port that another process takes first costs one more attempt."""
    log = folder / "slapd.log"
    for _ in range(_ATTEMPTS):
        port = _free_port()
        url = f"ldap://127.0.0.1:{port}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [server, "-f", str(configuration), "-h", url, "-d", "0"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            until = time.monotonic() + _START_SECONDS
            while process.poll() is None and not _answers(port):
                if time.monotonic() > until:
                    raise TimeoutError(f"slapd does not answer: {log.read_text(errors='replace')}")
                time.sleep(0.02)
            if process.poll() is None:
                yield url
                return
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    raise RuntimeError(f"slapd does not start: {log.read_text(errors='replace')}")


@contextmanager
def server(ldif: str) -> Iterator[str]:
    """The URL of a server that publishes the entries of a sound LDIF text under ``o=grid``."""
    slapd_program, slapadd = _program("slapd"), _program("slapadd")
    with tempfile.TemporaryDirectory(prefix="slapd-") as name:
        folder = Path(name)
        (folder / "grid").mkdir()
        configuration = folder / "slapd.conf"
        configuration.write_text(_configuration(folder), encoding="utf-8")
        data = folder / "data.ldif"
        data.write_text(ldif, encoding="utf-8")
        loaded = subprocess.run(
            [slapadd, "-f", str(configuration), "-l", str(data)],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
        )
        assert loaded.returncode == 0, loaded.stderr
        with _serving(slapd_program, configuration, folder) as url:
            yield url


@pytest.fixture(scope="module")
def slapd() -> Iterator[Callable[[str], str]]:
    """A function from LDIF to the URL of a server that publishes it."""
    with ExitStack() as running:

        def start(ldif: str) -> str:
            try:
                return running.enter_context(server(ldif))
            except UnavailableError as error:
                pytest.skip(f"no LDAP server here: {error}")

        yield start
