"""The script that fences a job's start, in every shell at hand: once, with leave, while leased."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matchmaker.delegation.contact import SpoolMarks
from matchmaker.delegation.record import Invocation, NoAnswer, Payload
from matchmaker.delegation.spool import NO_SPOOL, REFUSED, SharedSpool, render

SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}
PATIENCE = 30.0


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here (`make test` installs it where it may)")
    return words


@pytest.fixture
def spool(tmp_path: Path) -> SharedSpool:
    return SharedSpool(tmp_path / "spool", grace=1)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for process in made:
        with process:
            process.kill()


@pytest.fixture
def job(
    spool: SharedSpool, tmp_path: Path, shell: list[str], started: list[subprocess.Popen[bytes]]
) -> Callable[[], subprocess.Popen[bytes]]:
    """Starts attempt 1 of key k, once more at each call, as a batch system does: in a session."""

    def start() -> subprocess.Popen[bytes]:
        script = spool.root / "k" / "1" / "start.sh"
        process = subprocess.Popen(
            [*shell, str(script)], cwd=tmp_path, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            # A shell cannot trap what was ignored when it began, as under nohup.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509
        )  # fmt: skip
        started.append(process)
        return process

    return start


def prepare(
    spool: SharedSpool, text: str, lease: float = 60, call: Invocation | None = None
) -> None:
    """Makes room for a payload, and commits it with a lease of some seconds, unless that is 0."""
    payload = Payload(ad="[]", script="", content=text.encode(), invocation=call or Invocation())
    assert spool.prepare("k", 1, payload) == spool.root / "k" / "1" / "start.sh"
    if lease:
        assert spool.commit("k", 1, lease) is None


def marks(spool: SharedSpool) -> SpoolMarks:
    found = spool.marks([("k", 1)])
    assert not isinstance(found, NoAnswer)
    mine = found["k", 1]
    assert isinstance(mine, SpoolMarks)
    return mine


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


Start = Callable[[], "subprocess.Popen[bytes]"]


def test_a_committed_job_runs_and_leaves_a_record_of_its_end(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, '#!/bin/sh\necho "it runs in $PWD"\nexit 3\n')
    process = job()
    output, _ = process.communicate(timeout=PATIENCE)
    assert output.decode() == f"it runs in {tmp_path}\n"
    assert process.returncode == 3
    assert marks(spool) == SpoolMarks(committed=True, started=True, exit=3)


def test_the_payload_has_the_umask_of_the_order(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\numask\n", call=Invocation(umask="0067", stdout="out"))
    job().wait(PATIENCE)
    assert (tmp_path / "out").read_text() == "0067\n"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["room", "payload", "PATH", "me", "status"])
def test_a_variable_of_the_order_is_the_payloads_alone(
    spool: SharedSpool, tmp_path: Path, job: Start, name: str
) -> None:
    """It may have the name of a variable of the script, or take the commands from ``PATH``."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "payload").write_text("#!/bin/sh\necho another program\n")
    (other / "payload").chmod(0o755)
    prepare(
        spool, f'#!/bin/sh\necho "has ${name}"\nexit 3\n',
        call=Invocation(exports=((name, str(other)),)),
    )  # fmt: skip
    output, _ = job().communicate(timeout=PATIENCE)
    assert output.decode() == f"has {other}\n"
    assert marks(spool) == SpoolMarks(committed=True, started=True, exit=3)


def test_a_job_without_a_commit_does_not_start_and_never_will(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\ntouch ran\n", lease=0)
    assert job().wait(PATIENCE) == REFUSED
    assert spool.commit("k", 1, 60) is None
    assert job().wait(PATIENCE) == REFUSED
    assert marks(spool) == SpoolMarks(committed=True, forbidden=True)
    assert not (tmp_path / "ran").exists()


def test_a_forbidden_job_does_not_start(spool: SharedSpool, tmp_path: Path, job: Start) -> None:
    prepare(spool, "#!/bin/sh\ntouch ran\n")
    assert spool.forbid("k", 1) is None
    assert job().wait(PATIENCE) == REFUSED
    assert not (tmp_path / "ran").exists()


def test_of_many_starts_one_runs(spool: SharedSpool, tmp_path: Path, job: Start) -> None:
    prepare(spool, "#!/bin/sh\necho once >>ran\n")
    ends = [process.wait(PATIENCE) for process in [job() for _ in range(8)]]
    assert sorted(ends) == [0] + [REFUSED] * 7
    assert (tmp_path / "ran").read_text() == "once\n"


def test_a_full_disk_starts_nothing(spool: SharedSpool, tmp_path: Path, shell: list[str]) -> None:
    """No byte can be written, as on a full disk or over a quota; names can still be made."""
    prepare(spool, '#!/bin/sh\ntouch "ran.$$"\n')
    room = spool.root / "k" / "1"
    for _ in range(3):
        done = subprocess.run(
            [*shell, str(room / "start.sh")], cwd=tmp_path, capture_output=True, check=False,
            # SIGXFSZ stays ignored, as Python has it, so that a write fails and kills nothing.
            restore_signals=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )  # fmt: skip
        assert done.returncode == NO_SPOOL
        assert b"no record can be made" in done.stderr
    assert not list(tmp_path.glob("ran.*"))
    assert {path.name for path in room.iterdir()} <= {
        "payload",
        "order",
        "start.sh",
        "lease",
        "beat",
    }
    assert marks(spool) == SpoolMarks(committed=True)


def test_starts_with_the_same_process_id_and_time_run_once(
    spool: SharedSpool, tmp_path: Path, shell: list[str]
) -> None:
    """In containers on one host the first process has the same id in each."""
    prepare(spool, "#!/bin/sh\necho once >>ran\n")
    script = spool.root / "k" / "1" / "start.sh"
    script.write_text(script.read_text().replace("$$", "7").replace("date +%s", "echo 9"))
    ends = [subprocess.run([*shell, script], cwd=tmp_path, check=False) for _ in range(2)]
    assert [end.returncode for end in ends] == [0, REFUSED]
    assert (tmp_path / "ran").read_text() == "once\n"


def test_a_small_image_has_what_it_needs(
    spool: SharedSpool, tmp_path: Path, shell: list[str]
) -> None:
    """The programs of coreutils, find, ps and awk; not diffutils, whose ``cmp`` some lack."""
    prepare(spool, "#!/bin/sh\necho once >>ran\n")
    (tmp_path / "bin").mkdir()
    coreutils = ("date", "ln", "mktemp", "mv", "rm", "sleep", "sync", "touch", "uname")
    for name in (*coreutils, "awk", "find", "ps", "sh"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    words = [str(shutil.which(shell[0])), *shell[1:], str(spool.root / "k" / "1" / "start.sh")]
    done = subprocess.run(words, cwd=tmp_path, env={"PATH": str(tmp_path / "bin")}, check=False)
    assert done.returncode == 0
    assert (tmp_path / "ran").read_text() == "once\n"
    assert marks(spool).exit == 0


def test_a_start_and_its_prohibition_exclude_each_other(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\necho once >>ran\n")
    process = job()
    assert spool.forbid("k", 1) is None
    process.wait(PATIENCE)
    seen = marks(spool)
    assert seen.started != seen.forbidden
    assert (tmp_path / "ran").exists() is seen.started


def test_a_job_whose_lease_is_over_does_not_start(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\ntouch ran\n")
    assert spool.renew("k", 1, 0) is None
    assert job().wait(PATIENCE) == REFUSED
    assert marks(spool).forbidden
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_job_ends_with_its_family_when_its_lease_is_over(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    deaf = "trap '' TERM; echo $$ >child; while :; do sleep 1; done"
    prepare(spool, f'#!/bin/sh\nsh -c "{deaf}" &\necho up >ran\nwait\n', lease=2)
    process = job()
    until((tmp_path / "child").exists)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert marks(spool) == SpoolMarks(committed=True, started=True, exit=143, over=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 0)


@pytest.mark.slow
def test_a_renewed_lease_keeps_a_job(spool: SharedSpool, tmp_path: Path, job: Start) -> None:
    prepare(spool, "#!/bin/sh\nwhile ! [ -e go ]; do sleep 0.1; done\n", lease=2)
    process = job()
    until(lambda: marks(spool).started)
    assert spool.renew("k", 1, 60) is None
    time.sleep(2.5)
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_job_ends_when_the_storage_is_silent_for_as_long_as_its_lease(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\ntouch ran\nexec sleep 60\n", lease=2)
    process = job()
    until((tmp_path / "ran").exists)
    spool.root.rename(tmp_path / "gone")
    process.wait(PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert process.stdout is not None
    assert b"the record of the end cannot be written" in process.stdout.read()


@pytest.mark.parametrize("name", ["TERM", "USR1", "HUP", "USR2"])
def test_signals_are_passed_on(spool: SharedSpool, tmp_path: Path, job: Start, name: str) -> None:
    trap = f'trap "echo {name} >got; exit 9" {name}'
    text = f"#!/bin/sh\n{trap}\ntouch up\nwhile :; do sleep 0.1; done\n"
    prepare(spool, text)
    process = job()
    until((tmp_path / "up").exists)
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert process.wait(PATIENCE) == 9
    assert (tmp_path / "got").read_text() == f"{name}\n"
    assert marks(spool).exit == 9


def test_a_payload_goes_on_after_a_signal_that_it_ignores(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\ntrap '' USR1\ntouch up\nsleep 1\nexit 4\n")
    process = job()
    until((tmp_path / "up").exists)
    for _ in range(3):
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.05)
    assert process.wait(PATIENCE) == 4


def test_nothing_is_left_behind(spool: SharedSpool, tmp_path: Path, job: Start) -> None:
    prepare(spool, '#!/bin/sh\nread line; echo "[$line]"\n')
    process = job()
    # The pipe ends only when the last process that holds it has ended.
    assert process.communicate(timeout=PATIENCE)[0] == b"[]\n"
    left = {path.name for path in (spool.root / "k" / "1").iterdir()}
    assert left == {"payload", "order", "start.sh", "start", "lease", "beat", "end"}
    until(lambda: not alive(process.pid))


def test_a_node_without_the_spool_says_so(tmp_path: Path, shell: list[str]) -> None:
    script = tmp_path / "start.sh"
    script.write_text(render(tmp_path / "not here" / "it's"))
    done = subprocess.run([*shell, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == NO_SPOOL
    assert "is the spool shared with the nodes?" in done.stderr


def test_a_payload_that_cannot_run_is_an_end(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/no/such/shell\n")
    assert job().wait(PATIENCE) in (126, 127)
    assert marks(spool).exit in (126, 127)


def test_the_script_is_clean_by_shellcheck(tmp_path: Path) -> None:
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("no shellcheck here (`make test` installs it where it may)")
    script = tmp_path / "start.sh"
    script.write_text(render(Path("/shared/it's/k 7/1")))
    done = subprocess.run([checker, "-s", "sh", str(script)], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.stdout == ""


@pytest.mark.slow
def test_a_lease_that_begins_with_the_start_does_not_count_the_queue(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\ntouch ran\nexec sleep 60\n", lease=0)
    assert spool.commit("k", 1, 60, 1) is None
    time.sleep(1.5)
    process = job()
    until((tmp_path / "ran").exists)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert marks(spool) == SpoolMarks(committed=True, started=True, exit=143, over=True)


@pytest.mark.slow
def test_a_renewal_after_the_start_runs_from_then_on(
    spool: SharedSpool, tmp_path: Path, job: Start
) -> None:
    prepare(spool, "#!/bin/sh\nwhile ! [ -e go ]; do sleep 0.1; done\n", lease=0)
    assert spool.commit("k", 1, 60, 2) is None
    process = job()
    until(lambda: marks(spool).started)
    assert spool.renew("k", 1, 60, 60) is None
    time.sleep(2.5)
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE) == 0


def test_nothing_starts_after_the_time_to_wait_for_it(spool: SharedSpool, job: Start) -> None:
    prepare(spool, "#!/bin/sh\ntouch ran\n", lease=0)
    assert spool.commit("k", 1, 0.01, 60) is None
    time.sleep(0.1)
    assert job().wait(PATIENCE) == REFUSED
    assert marks(spool).forbidden
