"""Pilots that share a folder of a real server: OpenSSH's, and Apache's WebDAV."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker.pilots.store import remote
from matchmaker.pilots.store.backends import open_store
from matchmaker.pilots.store.protocol import StoreError, UnsureError
from tests.cli.conftest import COMMAND
from tests.pilots.store.test_places import (
    Place,
    test_a_result_is_stored_once,
    test_a_straggler_after_the_move_does_no_harm,
    test_files_come_and_go,
    test_of_many_that_create_a_claim_one_has_it,
    test_times_are_the_storages,
)
from tests.services.daemons import (
    ServiceUnavailable,
    daemon,
    free_port,
    program,
    wait,
)

__all__ = [
    "test_a_result_is_stored_once",
    "test_a_straggler_after_the_move_does_no_harm",
    "test_files_come_and_go",
    "test_of_many_that_create_a_claim_one_has_it",
    "test_times_are_the_storages",
]

pytestmark = [pytest.mark.service, pytest.mark.slow]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "store"
SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/user.pub
StrictModes no
PasswordAuthentication no
UsePAM no
MaxStartups 100
Subsystem sftp internal-sftp
"""
HTTPD = """
ServerRoot /usr/lib/apache2
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/pid
ErrorLog /dev/stderr
Mutex file:{folder} default
User {user}
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule dav_module modules/mod_dav.so
LoadModule dav_fs_module modules/mod_dav_fs.so
DavLockDB {folder}/lock
DocumentRoot {root}
<Directory {root}>
  Dav On
  Require all granted
</Directory>
<LocationMatch "[.]forbidden[.]moving">
  Require all denied
</LocationMatch>
"""


@contextlib.contextmanager
def sshd(folder: Path, root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """An SSH server; the URL of a folder below it, and what its client must know."""
    port = free_port()
    for name in ("host", "user"):
        subprocess.run(
            [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
            check=True,
        )
    public = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {public}")
    (folder / "config").write_text(SSHD.format(port=port, folder=folder))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    log = folder / "log"
    with daemon([program("sshd"), "-D", "-e", "-f", str(folder / "config")], log) as process:
        wait(lambda: listens(port), process, log)
        known = {"SFTP_KNOWN_HOSTS": str(folder / "known"), "SFTP_KEY": str(folder / "user")}
        yield f"sftp://{getpass.getuser()}@127.0.0.1:{port}{root}", known


@contextlib.contextmanager
def httpd(folder: Path, root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A WebDAV server; the rest as above."""
    port = free_port()
    # A server that root starts serves as another.
    user = "nobody" if os.getuid() == 0 else getpass.getuser()
    for each in (folder, root):
        each.chmod(0o777)
    for each in (folder, *folder.parents):
        if each.owner() == getpass.getuser():
            each.chmod(each.stat().st_mode | 0o755)
    text = HTTPD.format(port=port, folder=folder, root=root, user=user)
    (folder / "config").write_text(text)
    log = folder / "log"
    with daemon([program("apache2"), "-X", "-f", str(folder / "config")], log) as process:
        wait(lambda: listens(port), process, log)
        yield f"dav://127.0.0.1:{port}", {}


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


SERVERS = {"sftp": sshd, "webdav": httpd}


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The URL of a server's folder, and the folder."""
    folder, root = tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("root")
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        try:
            url, known = stack.enter_context(SERVERS[request.param](folder, root))
        except ServiceUnavailable as error:
            pytest.skip(str(error))
        for name, value in known.items():
            patch.setenv(name, value)
        yield url, root


def open_to_all(folder: Path) -> None:
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o777 if each.is_dir() else 0o666)


@pytest.fixture
def place(server: tuple[str, Path], tmp_path: Path) -> Place:
    """A new store with one input."""
    url, root = server
    store = root / tmp_path.name
    (store / "work" / "a.arff").mkdir(parents=True)
    (store / "work" / "a.arff" / "data").write_bytes(b"data")
    open_to_all(store)
    return Place(open_store(f"{url}/{store.name}"), True)


def test_what_a_pilot_left_that_was_killed_in_a_move_holds_nobody_up(
    place: Place, server: tuple[str, Path], tmp_path: Path
) -> None:
    left = server[1] / tmp_path.name / "work" / "a.arff" / ".active1.moving"
    left.mkdir()
    long_ago = time.time() - 600
    os.utime(left, (long_ago, long_ago))
    open_to_all(left)
    assert place.store.create("work/a.arff/active1", b"mine")
    assert place.store.read("work/a.arff/active1") == b"mine"


@pytest.mark.parametrize("server", ["webdav"], indirect=True)
def test_while_another_moves_something_there_nobody_does(
    place: Place, server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_PAUSES", (0.01, 0.01))
    (server[1] / tmp_path.name / "work" / "a.arff" / ".active1.moving").mkdir()
    with pytest.raises(UnsureError, match="another moves something there"):
        place.store.create("work/a.arff/active1", b"mine")
    assert place.store.read("work/a.arff/active1") is None
    with pytest.raises(StoreError, match="forbid"):
        place.store.create("work/a.arff/forbidden", b"mine")


def test_pilots_share_a_folder_and_one_is_killed(server: tuple[str, Path], tmp_path: Path) -> None:
    url, root = server
    folder = root / "shared sweep"
    shutil.copytree(EXAMPLE, folder)
    plan = folder / "plan.toml"
    plan.write_text(plan.read_text().replace("ttl = 60", "ttl = 5\nagain = 5"))
    open_to_all(folder)
    pool = f"{url}/shared%20sweep"

    def pilot(number: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "pilot", "--store", pool, "--json", "--dir", str(tmp_path / str(number))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    pilots = [pilot(number) for number in range(3)]
    end = time.monotonic() + 60
    while not [*folder.glob("work/*/active*")] and time.monotonic() < end:
        time.sleep(0.05)
    pilots[0].kill()
    # A guard that the killed pilot left is in the way for three minutes.
    said = [each.communicate(timeout=400) for each in pilots]
    assert [each.returncode for each in pilots[1:]] == [0, 0], said
    told = [json.loads(out) for out, _ in said[1:]]
    assert {each["ended"] for each in told} == {"all is done"}
    found = {path.name for path in (folder / "finished" / "shuf2296.arff").glob("[!a.]*")}
    assert found == {"data", *(f"votes{each}.txt" for each in range(63, 83))}
    # What the killed pilot had not put in its place.
    assert len([*(folder / "finished").glob("*/.*")]) <= 2
    assert not [*(folder / "work").iterdir()]
    assert sum(each["duplicates"] for each in told) <= 3
    shown = subprocess.run(
        [*COMMAND, "store", "status", pool], capture_output=True, text=True, check=False
    )
    assert (shown.returncode, shown.stdout.splitlines()[-1][:17]) == (0, "40 of 40 results;")


def test_what_cannot_be_run_is_said(
    server: tuple[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, root = server
    store = root / f"odd{tmp_path.name}"
    for name in ("good", "my data", "deep/sub", "linked", "result/votes1.txt"):
        (store / "work" / name).mkdir(parents=True)
    (store / "elsewhere").mkdir()
    (store / "work" / "link").symlink_to(store / "elsewhere")
    (store / "work" / "linked" / "data").symlink_to(store / "plan.toml")
    (store / "work" / "hidden").mkdir()
    (store / "work" / "hidden" / "votes1.txt").symlink_to(store / "plan.toml")
    (store / "plan.toml").write_text(
        'command = ["touch", "votes{parameter}.txt"]\nparameters = "1"\n'
    )
    open_to_all(store)
    done = run("pilot", "--store", f"{url}/{store.name}", "--dir", tmp_path / "node")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "the pilot has ended: all else is done" in done.stdout
    said = {
        "work/my data is left out: rename it; an input's name has letters, digits, _ . + - only",
        "work/deep is left out: sub is a folder; it may hold plain files only",
        "work/result is left out: votes1.txt is a folder; it may hold plain files only",
    }
    links = {
        "work/link is left out: it is a symbolic link; an input is a folder",
        "work/linked is left out: data is a symbolic link; it may hold plain files only",
        "work/hidden is left out: votes1.txt is a symbolic link; it may hold plain files only",
    }
    told = {line.removeprefix("classad: ") for line in done.stderr.splitlines()}
    if "webdav" in request.node.callspec.id:
        # Apache lists neither links nor pipes. One in the place of a result is there all the same.
        place = "work/hidden/votes1.txt"
        said.add(f"{place} is there, but in no listing: remove it, if it is a link or a pipe")
        assert told == said
        assert sorted(each.name for each in (store / "finished").iterdir()) == ["good", "linked"]
    else:
        assert told == said | links
        assert [each.name for each in (store / "finished").iterdir()] == ["good"]
    shown = run("store", "status", f"{url}/{store.name}")
    assert shown.returncode == 1
    assert "work/deep: sub is a folder" in shown.stderr


def test_a_list_of_tasks_is_put_there_and_done(server: tuple[str, Path], tmp_path: Path) -> None:
    url, root = server
    store = root / f"list{tmp_path.name}"
    store.mkdir()
    open_to_all(store)
    tasks_on(f"{url}/{store.name}", tmp_path)
    assert (store / "work" / "tasks" / "3.out").read_text() == "3\n"


def tasks_on(url: str, folder: Path) -> None:
    """Tasks by two nodes: on one all fails; one task fails on both, and is brought back."""
    lines = "".join(f"sh -c 'case $HOME in */bad*) exit 1;; esac; echo {n}'\n" for n in range(1, 4))
    lines += "sh -c 'exit 7'\n"
    words = ("pilot", "--store", url, "--json", "--tasks", "-")
    bad = run(*words, "--dir", folder / "bad", "--node", "farm13", given=lines)
    told = json.loads(bad.stdout)
    assert (bad.returncode, told["stored"], told["failed"]) == (1, 0, 12), bad.stderr
    good = run(*words, "--dir", folder / "good", "--node", "farm1", given=lines)
    told = json.loads(good.stdout)
    assert (good.returncode, told["stored"], told["failed_here"]) == (1, 3, 1), good.stderr
    other = run(*words, "--dir", folder / "good", given="echo other\n")
    assert (other.returncode, "has another tasks.csv" in other.stderr) == (2, True)
    shown = json.loads(run("store", "status", url, "--json").stdout)
    assert shown["inputs"][0]["failed"] == 1
    [failure] = shown["failures"]
    assert (failure["parameter"], failure["nodes"], failure["problem"]) == ("4", 2, "exit status 7")
    retried = run("store", "retry", url, "4")
    assert (retried.returncode, retried.stdout) == (0, "1 parameter may be tried again\n")
    assert json.loads(run("store", "status", url, "--json").stdout)["failures"] == []


def run(*words: object, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, words)], input=given, capture_output=True, text=True, check=False
    )


def test_what_is_not_there_is_said(server: tuple[str, Path]) -> None:
    url, _ = server
    assert open_store(f"{url}/nowhere").inputs() is None
    done = subprocess.run(
        [*COMMAND, "store", "status", f"{url}/nowhere"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no plan.toml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("scheme", ["sftp", "dav"])
def test_a_server_that_is_away_is_no_answer(scheme: str) -> None:
    with pytest.raises(UnsureError):
        open_store(f"{scheme}://127.0.0.1:{free_port()}/x").inputs()


def test_a_server_whose_key_is_unknown_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        with sshd(tmp_path, tmp_path) as (url, known):
            (tmp_path / "none").touch()
            monkeypatch.setenv("SFTP_KNOWN_HOSTS", str(tmp_path / "none"))
            monkeypatch.setenv("SFTP_KEY", known["SFTP_KEY"])
            with pytest.raises(StoreError, match="known_hosts"):
                open_store(url).inputs()
    except ServiceUnavailable as error:
        pytest.skip(str(error))
