"""Jobs under accounts of their own, where root is: what they cannot do, and what they leave."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from matchmaker.classad import ClassAd
from matchmaker.pilots.node import isolation as accounts_
from matchmaker.pilots.node import keeper
from matchmaker.pilots.node.isolation import Accounts, own_directory
from matchmaker.pilots.node.keeper import processes_of, remove
from matchmaker.pilots.node.running import run
from matchmaker.pilots.node.task import Task, TaskResult
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connect import JobFacts
from matchmaker.pilots.wire.protocol import TokenScope
from tests.pilots.real import Grid, grid

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="root alone can run jobs under other accounts"
)
NAMES = ["games", "news"]
PYTHON = "/usr/bin/python3"
"""One that every account may run, as this one's may not be."""


def bounded(case: Coroutine[Any, Any, Any], seconds: float = 120.0) -> Any:
    return asyncio.run(asyncio.wait_for(case, seconds))


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that all accounts may pass through, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture
def pool() -> Iterator[Accounts]:
    made = Accounts(NAMES)
    yield made
    made.close()


def script(made: Accounts, text: str, home: Path, **more: Any) -> tuple[TaskResult, str]:
    """Runs a script under an account; what became of it, and why the account is not clear."""
    account = made.take()
    assert account is not None
    task = Task(id="1", argv=("/bin/sh", "-c", text), account=account, **more)
    found = bounded(run(task, home))
    for part in found.parts:
        part.close()
    return found, made.leave(account, home)


@as_root
def test_a_job_has_the_rights_of_its_account_alone(pool: Accounts, home: Path) -> None:
    found, problem = script(
        pool, "id -un; id -G; pwd; echo $HOME $USER; stat -c '%a %U' .; echo x > /dev/stderr;"
        " grep -E 'NoNewPrivs|CapEff' /proc/self/status", home,
    )  # fmt: skip
    name, groups, at, env, rights, *rest = found.output.decode().splitlines()
    assert (name, groups, rights) == ("games", "60", "700 games"), found
    assert env == f"{at} games"
    assert [line.split()[1].strip("0") for line in rest] == ["", "1"]
    assert found.errors == b"x\n"
    assert problem == ""
    assert list(home.iterdir()) == []


@as_root
def test_nothing_of_a_job_outlives_it(pool: Accounts, home: Path) -> None:
    left = Path(tempfile.gettempdir(), f"matchmaker-{os.getpid()}")
    # Debian lets everybody write there.
    locks = Path("/run/lock", left.name)
    found, problem = script(
        pool,
        f"mkdir -p {left}/a/b; touch {left}/a/b/c; chmod 000 {left}/a; mkdir d; touch d/e;"
        " chmod 000 d;"
        f" setsid {PYTHON} -c 'import os, time\nwhile os.fork(): pass\ntime.sleep(9)' &"
        f" ipcmk -M 64; cp /bin/sh {locks}; chmod u+s {locks}; sleep 0.3; echo done", home,
    )  # fmt: skip
    assert found.output.decode().endswith("done\n"), found
    assert problem == ""
    assert list(home.iterdir()) == []
    assert not left.exists()
    assert not locks.exists()
    assert processes_of(5) == []
    heading, *lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    column = heading.split().index("uid")
    assert [line for line in lines if line.split()[column] == "5"] == []
    assert len(pool) == 2


@as_root
def test_a_process_that_escaped_its_keeper_is_ended(pool: Accounts, home: Path) -> None:
    """As one that a service of the node starts for the account."""
    account = pool.take()
    assert account is not None
    text = "import os, signal, time\nsignal.signal(15, 1)\nprint(1, flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [PYTHON, "-c", text], user=account.user, group=account.group, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert processes_of(account.user) == [other.pid]
        with pytest.raises(ValueError, match=r"another pilot's jobs run as games"):
            Accounts(NAMES)
        assert pool.leave(account, home) == ""
        assert other.wait(10) == -signal.SIGKILL


@as_root
def test_accounts_that_are_not_for_jobs_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no account 'no-such'"):
        Accounts(["games", "no-such"], locks=tmp_path)
    with pytest.raises(ValueError, match="root is root"):
        Accounts(["root"], locks=tmp_path)
    with pytest.raises(ValueError, match="games is named twice"):
        Accounts(["games", "games"], locks=tmp_path)
    with subprocess.Popen(["/bin/sleep", "600"], user="news") as other:
        with pytest.raises(ValueError, match=f"processes of news run already, such as {other.pid}"):
            Accounts(["news"], locks=tmp_path)
        other.kill()
    Accounts(NAMES, locks=tmp_path).close()


@as_root
def test_an_account_that_cannot_be_cleared_gets_no_other_job(
    pool: Accounts, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "its processes could not be ended: [7]"
    monkeypatch.setattr(accounts_, "end_processes_of", lambda *_: why)
    _, problem = script(pool, "true", home)
    assert problem == "games: its processes could not be ended: [7]"
    taken = pool.take()
    assert taken is not None
    assert taken.name == "news"
    assert pool.take() is None


@as_root
def test_a_directory_that_accounts_cannot_enter_is_refused(pool: Accounts, home: Path) -> None:
    with own_directory(str(home / "new"), passable=True) as mine:
        pool.admits(mine)
    with own_directory(str(home / "new")) as mine, pytest.raises(ValueError, match="give --dir"):
        pool.admits(mine)


@as_root
def test_root_changes_nothing_in_the_directories_of_other_accounts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the account could put a link there at the same moment."""
    owners = []
    emptied = keeper._emptied

    def spy(folder: Path, top: Path) -> list[Path]:
        owners.append(folder.lstat().st_uid)
        return emptied(folder, top)

    monkeypatch.setattr(keeper, "_emptied", spy)
    for place in (home / "job", home / "dead" / "job", home / "dead" / "ours" / "job"):
        (place / "a" / "b").mkdir(parents=True)
        (place / "a" / "link").symlink_to("/etc")
        for each in (place, *place.rglob("*")):
            os.chown(each, 9, 13, follow_symlinks=False)
        (place / "a").chmod(0)
    remove(home / "job")
    remove(home / "dead")
    assert list(home.iterdir()) == []
    assert set(owners) == {0}


@as_root
def test_an_unprivileged_pilot_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ValueError, match="this pilot is not root"):
        Accounts(NAMES)


# --- through the binder

ATTACK = """
import os, signal, socket, time
pilot = {pilot}
def tried(name, act):
    try:
        act()
    except OSError as error:
        print(name, error.strerror)
    else:
        print(name, "DONE")
tried("token", lambda: open({token!r}).read())
tried("pilots", lambda: os.listdir({home!r}))
tried("environ", lambda: open(f"/proc/{{pilot}}/environ", "rb").read())
tried("mem", lambda: open(f"/proc/{{pilot}}/mem", "rb+").read(1))
tried("fds", lambda: os.listdir(f"/proc/{{pilot}}/fd"))
tried("kill", lambda: os.kill(pilot, 9))
tried("keeper", lambda: os.kill(os.getppid(), 9))
for number in range(600):
    try:
        other = open({said!r}).read().split()
        break
    except OSError:
        time.sleep(0.1)
tried("other's directory", lambda: os.listdir(other[1]))
tried("other's file", lambda: open(other[1] + "/secret").read())
tried("other's process", lambda: os.kill(int(other[0]), 9))
tried("other's environ", lambda: open(f"/proc/{{other[0]}}/environ").read())
open({said!r} + ".done", "w").close()
"""
VICTIM = """
import os, time
os.umask(0)
open("secret", "w").write("mine")
open({said!r} + ".new", "w").write(f"{{os.getpid()}} {{os.getcwd()}}")
os.rename({said!r} + ".new", {said!r})
while not os.path.exists({said!r} + ".done"): time.sleep(0.05)
"""


@as_root
def test_a_job_of_one_owner_gets_nothing_of_the_pilot_or_of_another(home: Path) -> None:
    folder = home / "grid"
    folder.mkdir(mode=0o700)
    shared = home / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    said = str(shared / "said")

    def place(made: Grid, subject: str) -> connect.BinderAddress:
        text = made.token(TokenScope.CLIENT, subject=subject)
        return connect.BinderAddress(address=made.address, token=text)

    async def submitted(made: Grid, owner: str, text: str) -> JobFacts:
        ad = ClassAd(Cmd=PYTHON, Arguments=["-c", text], Requirements=True)
        async with connect.binder(place(made, owner)) as binder:
            return await binder.submit(ad, "k")

    async def ended(made: Grid, owner: str, id_: str) -> JobFacts:
        async with connect.binder(place(made, owner)) as binder:
            return await binder.job(id_, seconds=100)

    async def case(made: Grid) -> None:
        token = made.pilot_token()
        kept = folder / "kept.token"
        kept.write_text(token.read_text())
        kept.chmod(0o600)
        token.chmod(0o600)
        work = home / "work"
        pilot = made.start(
            "p", "pilot", "--token", token, "--dir", work, "--cpus", 2, "--run-as", ",".join(NAMES)
        )
        ana = await submitted(made, "ana", VICTIM.format(said=said))
        attack = ATTACK.format(pilot=pilot.pid, token=str(kept), home=str(work), said=said)
        eve = await submitted(made, "eve", attack)
        found = await ended(made, "eve", eve.id)
        assert found.result is not None
        output = str(found.result.eval("Out")).splitlines()
        assert output == [
            f"{name} {why}" for name, why in (
                ("token", "Permission denied"), ("pilots", "Permission denied"),
                ("environ", "Permission denied"), ("mem", "Permission denied"),
                ("fds", "Permission denied"), ("kill", "Operation not permitted"),
                ("keeper", "Operation not permitted"), ("other's directory", "Permission denied"),
                ("other's file", "Permission denied"),
                ("other's process", "Operation not permitted"),
                ("other's environ", "Permission denied"),
            )
        ], found.result  # fmt: skip
        victim = await ended(made, "ana", ana.id)
        assert victim.result is not None
        assert victim.result.eval("ExitCode") == 0
        made.end("p")
        assert list(work.iterdir()) == []

    with grid(folder) as made:
        made.binder()
        bounded(case(made))


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def is_free() -> bool:
    try:
        Accounts(["games"]).close()
    except ValueError:
        return False
    return True


@as_root
def test_the_jobs_of_a_killed_pilot_end_and_its_accounts_come_free(home: Path) -> None:
    folder = home / "grid"
    folder.mkdir()

    async def case(made: Grid) -> None:
        work = home / "work"
        words = ("--dir", work, "--cpus", 1, "--run-as", "games")

        def started(name: str) -> None:
            token = made.pilot_token()
            token.chmod(0o600)
            made.start(name, "pilot", "--token", token, *words)

        started("one")
        ad = ClassAd(Cmd="/bin/sleep", Arguments=["600"], Requirements=True)
        async with connect.binder(made.place()) as binder:
            await binder.submit(ad, "k")
        await until(lambda: bool(processes_of(5)))
        made.signal("one", signal.SIGKILL)
        await until(lambda: not processes_of(5))
        await until(lambda: not any(work.iterdir()))
        await until(is_free)

    with grid(folder) as made:
        made.binder()
        bounded(case(made))
