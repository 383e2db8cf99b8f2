r"""A real LDAP server that publishes a GLUE tree, as a BDII does.

`slapd` runs with the GLUE schemas that Debian's ``glue-schema`` installs, in the foreground, as a
child of the test process (see `daemons`): on a free loopback port, in a private temporary folder.
Its database is filled offline with ``slapadd``, which checks every entry
against the schema and complains where a parent is missing.

The fixture `slapd` is a factory and remembers its servers until the module's tests end::

    def test_search(slapd):
        url = slapd("dn: o=grid\nobjectClass: organization\no: grid\n")

It serves ``o=grid`` for GLUE 1.3 and ``o=glue`` for GLUE 2.0, unless its `Setup` says otherwise.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import attrs
import pytest

from tests.services.daemons import ServiceUnavailable, daemon, free_port, program, wait

_SCHEMA = Path("/etc/ldap/schema")
# In this order: each uses what came before.
_SCHEMAS = (
    *("core", "cosine", "nis"),
    *("Glue-CORE", "Glue-MDS", "Glue-CE", "Glue-CESEBind", "Glue-SE", "GLUE20"),
)
_MODULES = (Path("/usr/lib/ldap"), Path("/usr/lib64/openldap"), Path("/usr/libexec/openldap"))
_ATTEMPTS = 5

GRID, GLUE = "o=grid", "o=glue"
_DATABASE = """\
database mdb
suffix "{suffix}"
rootdn "{suffix}"
rootpw secret
directory {folder}/{number}
maxsize 1073741824
dbnosync
index objectClass eq,pres
index GlueCEUniqueID,GLUE2ServiceID eq
"""


@attrs.frozen
class Certificate:
    """A certificate of this machine's loopback address, its key, and who signed it: itself."""

    certificate: Path
    key: Path


def make_certificate(folder: Path, host: str = "IP:127.0.0.1") -> Certificate:
    """A certificate that nobody but a client who is given it trusts."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={host}"),
            *("-out", str(made.certificate), "-keyout", str(made.key)),
        ],
        check=True,
        capture_output=True,
    )
    return made


@attrs.frozen
class Setup:
    """How a server is to be: further lines for its databases, TLS, and what it serves."""

    options: str = ""
    certificate: Certificate | None = None
    scheme: str = "ldap"
    suffixes: tuple[str, ...] = (GRID, GLUE)


def _configuration(folder: Path, setup: Setup) -> str:
    lines = []
    for name in _SCHEMAS:
        file = _SCHEMA / f"{name}.schema"
        if not file.exists():
            raise ServiceUnavailable(f"{file} is not installed")
        lines.append(f"include {file}")
    modules = next((path for path in _MODULES if list(path.glob("back_mdb*"))), None)
    if modules is not None:  # elsewhere the backend is built in
        lines += [f"modulepath {modules}", "moduleload back_mdb"]
    lines += [f"pidfile {folder}/slapd.pid", f"argsfile {folder}/slapd.args", "sizelimit unlimited"]
    if setup.certificate is not None:
        lines += [f"TLSCertificateFile {setup.certificate.certificate}"]
        lines += [f"TLSCertificateKeyFile {setup.certificate.key}"]
    databases = [
        _DATABASE.format(folder=folder, number=number, suffix=suffix) + setup.options
        for number, suffix in enumerate(setup.suffixes)
    ]
    return "\n".join([*lines, *databases]) + "\n"


def _answers(port: int, folder: Path) -> bool:
    """Whether a server answers there and is ours, which notes its process once the port is its."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return (folder / "slapd.pid").exists()


@contextmanager
def _serving(server: str, configuration: Path, folder: Path, scheme: str) -> Iterator[str]:
    """Run the server; a port that another process takes first costs one more attempt."""
    log = folder / "slapd.log"
    for left in reversed(range(_ATTEMPTS)):
        port = free_port()
        url = f"{scheme}://127.0.0.1:{port}"
        argv = [server, "-f", str(configuration), "-h", url, "-d", "0"]
        with daemon(argv, log) as process:
            try:
                wait(partial(_answers, port, folder), process, log)
            except ServiceUnavailable:
                if not left:
                    raise
                continue
            yield url
            return


def _load(slapadd: str, folder: Path, suffixes: tuple[str, ...], ldif: str) -> None:
    """Fill the databases, each with the entries under its own suffix."""
    entries = [entry for entry in ldif.split("\n\n") if entry.strip()]
    for suffix in suffixes:
        mine = [e for e in entries if _name(e).lower().endswith(suffix.lower())]
        data = folder / "data.ldif"
        data.write_text("\n\n".join(mine) + "\n", encoding="utf-8")
        loaded = subprocess.run(
            [slapadd, "-f", str(folder / "slapd.conf"), "-b", suffix, "-l", str(data)],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
        )
        assert loaded.returncode == 0, loaded.stderr


def _name(entry: str) -> str:
    """The unfolded name of an entry of LDIF, empty where there is none."""
    lines = entry.replace("\n ", "").split("\n")
    return next((line[3:].strip() for line in lines if line.lower().startswith("dn:")), "")


@contextmanager
def server(ldif: str, setup: Setup | None = None) -> Iterator[str]:
    """The URL of a server that publishes the entries of a sound LDIF text."""
    setup = setup or Setup()
    slapd_program, slapadd = program("slapd"), program("slapadd")
    with tempfile.TemporaryDirectory(prefix="slapd-") as name:
        folder = Path(name)
        for number in range(len(setup.suffixes)):
            (folder / str(number)).mkdir()
        configuration = folder / "slapd.conf"
        configuration.write_text(_configuration(folder, setup), encoding="utf-8")
        _load(slapadd, folder, setup.suffixes, ldif)
        with _serving(slapd_program, configuration, folder, setup.scheme) as url:
            yield url


class Start(Protocol):
    """What the fixture gives: a function from LDIF to the URL of a server that publishes it."""

    def __call__(self, ldif: str, setup: Setup | None = None) -> str: ...


@pytest.fixture(scope="module")
def slapd() -> Iterator[Start]:
    """A function from LDIF to the URL of a server that publishes it."""
    with ExitStack() as running:

        def start(ldif: str, setup: Setup | None = None) -> str:
            try:
                return running.enter_context(server(ldif, setup))
            except ServiceUnavailable as error:
                pytest.skip(f"no LDAP server here: {error}")

        yield start
