"""Handing jobs over, and what becomes of them, from the command line."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from matchmaker import parse_ad
from matchmaker.cli import transfers
from matchmaker.cli.commands.broker import ordered
from matchmaker.delegation import Ledger
from matchmaker.delegation.record import NoAnswer, Payload
from matchmaker.delegation.spool import SharedSpool
from matchmaker.delegation.states import begin
from tests.cli.conftest import Done, Run
from tests.delegation.world import World


@pytest.fixture
def submitted(classad: Run, world: World, here: list[object], job: list[object]) -> Done:
    return classad("submit", *job, *here, "--key", "run-7")


def test_submit_waits_until_the_job_may_start(submitted: Done, world: World) -> None:
    assert (submitted.status, submitted.err) == (0, "classad: key run-7\n")
    facts = dict(line.split(maxsplit=1) for line in submitted.out.splitlines() if " " in line)
    assert facts["state"] == "committed"
    assert facts["key"] == "run-7"
    assert world.calls["park"] == 1


def test_while_it_waits_a_line_says_where_the_job_is(
    classad: Run, world: World, here: list[object], job: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    said: list[str] = []

    @contextlib.contextmanager
    def waiting(what: str) -> Iterator[Callable[[str], None]]:
        said.append(what)
        yield said.append

    monkeypatch.setattr(transfers, "waiting", waiting)
    world.faults = {"look": ["silent"]}
    assert classad("submit", *job, *here, "--key", "k").status == 0
    assert said[0] == "k is prepared"
    assert said[1].startswith("k is prepared, for 2 s; the command failed")
    assert said[-1].startswith("k is committed")


def test_the_same_again_submits_nothing(
    submitted: Done, classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    again = classad("submit", *job, *here, "--key", "run-7", "--json")
    assert again.status == 0
    assert json.loads(again.out)["transfer"]["key"] == "run-7"
    assert world.calls["park"] == 1
    assert again.err == "classad: key run-7: handed over before, and not submitted again\n"


def test_a_known_key_needs_no_queue(
    submitted: Done, classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    """The queue may be gone, full or better elsewhere by now: the order is what it was."""
    at = job.index("--ce") if "--ce" in job else job.index("--ldif")
    again = classad("submit", *job[:at], *job[at + 2 :], *here, "--key", "run-7")
    assert (again.status, world.calls["park"]) == (0, 1)
    assert "queue" not in again.out
    new = classad("submit", *job[:at], *job[at + 2 :], *here, "--key", "run-8")
    assert new.status == 2
    assert "no queues to choose from" in new.err


def test_a_key_of_another_job_is_refused(
    submitted: Done, classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    Path(str(job[-1])).write_text("#!/bin/sh\nexit 1\n")
    again = classad("submit", *job, *here, "--key", "run-7")
    assert again.status == 2
    assert "run-7 stands for another order" in again.err
    assert "it differs in the script" in again.err
    assert world.calls["park"] == 1


@pytest.mark.parametrize("key", ["", "a b", "../x", "-x", "x" * 65, "a\u00e9", "a\nb"])
def test_a_hostile_key_is_refused(
    classad: Run, world: World, here: list[object], job: list[object], key: str
) -> None:
    done = classad("submit", *job, *here, "--key", key)
    assert done.status == 2
    assert "a key has 1 to 64 letters" in done.err
    assert not world.calls


def test_a_script_that_is_not_there_is_refused(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    done = classad("submit", *job[:-1], "/none/job.sh", *here)
    assert done.status == 2
    assert "/none/job.sh: No such file" in done.err
    assert not world.calls


def test_a_job_without_an_answer_says_why_while_it_is_looked_for(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    world.faults = {"park": ["nothing"] * 5}
    classad("submit", *job, *here, "--key", "k", "--wait", 0)
    (before,) = json.loads(classad("jobs", *here, "--json").out)
    assert before["reason"]
    world.pass_time(5)
    classad("reconcile", *here)
    (shown,) = json.loads(classad("jobs", *here, "--json").out)
    assert shown["stuck"].startswith("missing from slurm for")
    assert "waits for its next submission, in 55 s, if it is proven absent" in shown["stuck"]
    assert before["reason"] in shown["stuck"]


def test_a_definite_refusal_fails_at_once_in_the_batch_systems_words(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    world.faults = {"park": ["refused"]}
    done = classad("submit", *job, *here, "--key", "k", "--json")
    assert done.status == 1
    told = json.loads(done.out)["transfer"]
    assert (told["state"], told["code"], told["attempt"]) == ("failed", "REFUSED", 1)
    assert "no such partition" in told["reason"]
    again = classad("submit", *job, *here, "--key", "k")
    assert again.status == 1
    assert "no such partition" in again.out
    assert world.calls["park"] == 1


def test_what_fails_otherwise_is_tried_by_a_schedule_then_paused_and_resumed(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    world.faults = {"park": ["nothing"] * 8}
    classad("submit", *job, *here, "--key", "k", "--wait", 0)
    begun = world.now
    while classad("reconcile", *here).status == 0 and world.calls["park"] < 8:
        world.pass_time(20)
    assert world.now - begun > 7000
    world.pass_time(40)
    shown = classad("reconcile", *here, "--every", 0.1, "--until-done")
    assert shown.status == 1
    assert "1 job, 1 moved, 1 paused (classad resume KEY)" in shown.out
    (stuck,) = json.loads(classad("jobs", *here, "--stuck", "--json").out)
    assert (stuck["state"], stuck["code"], stuck["tries"]) == ("paused", "NO_ANSWER", 8)
    assert stuck["stuck"].endswith("the command failed; classad resume k submits it again")
    world.pass_time(100_000)
    assert classad("reconcile", *here).status == 0
    assert world.calls["park"] == 8
    told = classad("submit", *job, *here, "--key", "k")
    assert "classad resume k" in told.out
    done = classad("resume", "k", *here, "--json")
    assert (done.status, json.loads(done.out)[0]["state"]) == (0, "prepared")
    assert classad("resume", "k", *here).status == 1
    world.pass_time(12)
    classad("reconcile", *here)
    world.pass_time(200)
    classad("reconcile", *here)
    assert world.starts["k"] == 1


def test_a_lost_reply_is_looked_up(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    world.faults = {"park": ["lost"]}
    done = classad("submit", *job, *here, "--key", "k", "--json")
    assert json.loads(done.out)["transfer"]["state"] == "committed"
    assert world.calls["park"] == 1
    shown = json.loads(classad("jobs", "k", *here, "--json").out)
    assert [entry["target"] for entry in shown["history"]] == [
        "intent", "unknown", "prepared", "committed",
    ]  # fmt: skip


def test_deadlines_are_given_by_name(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    classad("submit", *job, *here, "--key", "k", "--wait", 0)
    world.pass_time(5)
    assert "prepared" not in classad("reconcile", *here).out
    done = classad("reconcile", *here, "--deadlines", "settle=4.5, absent=60")
    assert done.out.splitlines()[0] == "k: prepared -> committed"


@pytest.mark.parametrize("text", ["settle", "settle=", "settle=-1", "hope=3", "settle=0"])
def test_a_wrong_deadline_is_refused(
    classad: Run, world: World, here: list[object], job: list[object], text: str
) -> None:
    done = classad("submit", *job, *here, "--key", "k", "--deadlines", text)
    assert done.status == 2
    assert "deadlines" in done.err or "settle must be" in done.err
    assert not world.calls


def test_without_waiting_reconcile_goes_on(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    done = classad("submit", *job, *here, "--key", "k", "--wait", 0)
    assert "classad reconcile finds out where it is, and lets it start" in done.out
    world.pass_time(12)
    done = classad("reconcile", *here)
    assert done.status == 0
    assert done.out.splitlines() == ["k: prepared -> committed", "slurm: 1 job, 1 moved"]
    done = classad("reconcile", *here, "--every", 30, "--until-done")
    assert done.status == 0
    assert "k: running -> done" in done.out
    assert classad("reconcile", *here).out == "no live jobs\n"


def test_broker_hands_over_too(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    script = job.pop()
    job.pop()
    done = classad("broker", *job, "--submit", script, *here, "--key", "k", "--json")
    assert done.status == 0
    assert json.loads(done.out)["transfer"]["state"] == "committed"
    assert classad("broker", *job[:3], "--submit", script, *here).status == 2


def test_jobs_lists_live_ones_and_all(submitted: Done, classad: Run, world: World,
                                      here: list[object]) -> None:  # fmt: skip
    listed = classad("jobs", *here)
    assert listed.status == 0
    assert "run-7" in listed.out
    assert "committed" in listed.out
    world.pass_time(600)
    classad("reconcile", *here)
    assert classad("jobs", *here).status == 1
    assert json.loads(classad("jobs", *here, "--all", "--json").out)[0]["state"] == "done"
    taken = classad("acknowledge", "run-7", *here)
    assert taken.status == 0
    assert "acknowledged" in taken.out
    assert classad("acknowledge", "run-7", *here).status == 0
    assert not world.files


def test_a_stuck_job_says_what_it_waits_for(submitted: Done, classad: Run, world: World,
                                            here: list[object]) -> None:  # fmt: skip
    assert classad("jobs", "--stuck", *here).out == "no job is stuck\n"
    world.pass_time(20)
    classad("reconcile", *here)
    world.crash(clean=True)
    world.runs.clear()
    classad("reconcile", *here)
    world.pass_time(200)
    stuck = classad("jobs", "--stuck", *here)
    assert stuck.status == 0
    assert "missing from slurm for 200 s" in stuck.out
    assert "its lease must run out" in stuck.out
    assert classad("renew", "run-7", *here).status == 1


def test_renew_and_cancel(submitted: Done, classad: Run, world: World, here: list[object]) -> None:
    renewed = classad("renew", "run-7", *here, "--for", 5000, "--json")
    record = json.loads(renewed.out)[0]
    assert record["lease"] == 5000
    assert record["lease_until"] == pytest.approx(world.now + 30 * 86_400)
    ended = classad("cancel", "run-7", *here)
    assert ended.status == 0
    world.pass_time(5)
    classad("reconcile", *here)
    shown = classad("jobs", "run-7", *here)
    assert "its owner wants it ended" in shown.out
    assert json.loads(classad("jobs", "run-7", *here, "--json").out)["state"] == "cancelled"
    refused = classad("renew", "run-7", *here)
    assert refused.status == 1
    assert "there is no lease to renew" in refused.err
    assert "there is no lease to renew" not in refused.out


@pytest.mark.parametrize("command", ["renew", "cancel", "acknowledge", "jobs"])
def test_an_unknown_key_is_bad_input(classad: Run, here: list[object], command: str) -> None:
    done = classad(command, "none", *here)
    assert done.status == 2
    assert "no job has the key 'none'" in done.err


def test_what_is_not_ended_has_no_result(submitted: Done, classad: Run, here: list[object]) -> None:
    done = classad("acknowledge", "run-7", *here, "--json")
    assert done.status == 1
    assert "no result to take yet" in json.loads(done.out)[0]["refused"]


def test_a_silent_batch_system_is_named(submitted: Done, classad: Run, world: World,
                                        here: list[object]) -> None:  # fmt: skip
    world.faults = {"look": ["silent"]}
    done = classad("reconcile", *here)
    assert done.status == 1
    assert "slurm: no answer: the command failed" in done.out


def test_what_is_left_of_jobs_that_ended_is_removed_where_none_is_live(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    """Such as a second submission that came late, and is held for ever."""
    classad("submit", *job, *here, "--key", "k")
    classad("cancel", "k", *here)
    world.pass_time(5)
    classad("reconcile", *here)
    assert json.loads(classad("jobs", "k", *here, "--json").out)["state"] == "cancelled"
    world._new("mm-k-1", 900.0)
    world._new("mm-others-1", 900.0)
    assert classad("reconcile", *here).out == "no live jobs\n"
    done = classad("reconcile", *here, "--lrms", "slurm")
    assert done.status == 0
    assert done.out == "slurm: 0 jobs, 0 moved; 1 in its queue that this ledger does not know\n"
    left = [each.name for each in world.jobs.values() if each.phase == "parked"]
    assert left == ["mm-others-1"]


def test_clusters_are_told_apart(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    done = classad("submit", *job, *here, "--key", "k", "--cluster", "north", "--json")
    assert json.loads(done.out)["transfer"]["cluster"] == "slurm@north"
    assert classad("reconcile", *here).out == "no live jobs\n"
    wrong = classad("cancel", "k", *here)
    assert wrong.status == 2
    assert "k is at slurm@north: give --cluster north" in wrong.err
    assert "1 job" in classad("reconcile", *here, "--cluster", "north").out
    assert classad("cancel", "k", *here, "--cluster", "north").status == 0


def test_a_lost_ledger_is_rebuilt(submitted: Done, classad: Run, world: World, tmp_path: Path,
                                  here: list[object]) -> None:  # fmt: skip
    world.pass_time(5)
    for file in tmp_path.glob("jobs.db*"):
        file.write_bytes(b"\xff" * 5000)
    broken = classad("jobs", *here)
    assert broken.status == 2
    assert "classad jobs --rebuild" in broken.err
    done = classad("jobs", "--rebuild", "slurm", *here)
    assert done.status == 0, done.err
    assert "the damaged ledger is now" in done.out
    for _ in range(3):
        classad("reconcile", *here)
    assert json.loads(classad("jobs", *here, "--json").out)[0]["state"] == "running"
    world.pass_time(600)
    classad("reconcile", *here)
    assert json.loads(classad("jobs", *here, "--all", "--json").out)[0]["state"] == "done"
    assert world.starts["run-7"] == 1


def test_nothing_is_rebuilt_while_nobody_answers(classad: Run, world: World,
                                                 here: list[object]) -> None:  # fmt: skip
    world.faults = {"look": ["silent"]}
    done = classad("jobs", "--rebuild", "slurm", *here)
    assert done.status == 2
    assert "nothing to rebuild from" in done.err


def test_the_ledger_is_checked(classad: Run, here: list[object]) -> None:
    done = classad("jobs", "--check", *here)
    assert (done.status, done.out) == (0, "the ledger is sound\n")


def test_the_default_ledger_is_the_users_own(
    classad: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CLASSAD_LEDGER", raising=False)
    assert classad("jobs").out == "no jobs\n"
    folder = tmp_path / "state" / "classad"
    assert (folder / "jobs.db").exists()
    assert folder.stat().st_mode & 0o077 == 0


def test_a_ledger_that_cannot_be_made_is_named(classad: Run) -> None:
    done = classad("jobs", "--ledger", "/none/jobs.db")
    assert done.status == 2
    assert "/none/jobs.db: it cannot be opened or made" in done.err


@pytest.mark.parametrize("place", ["", ":memory:", "file:jobs?mode=memory&uri=true"])
def test_a_ledger_that_would_be_lost_is_refused(
    classad: Run, job: list[object], world: World, tmp_path: Path, place: str
) -> None:
    """With the last one a file of that name is made, as for any other name."""
    with contextlib.chdir(tmp_path):
        done = classad("submit", *job, "--ledger", place, "--key", "k", "--wait", 0)
    if place.startswith("file:"):
        assert done.status == 0, done.err
        assert (tmp_path / place).exists()
    else:
        assert done.status == 2
        assert "the ledger must be kept: name a file" in done.err
        assert not world.calls


@pytest.mark.parametrize(
    ("line", "given", "stays"),
    [
        ("", (), True),
        ("#SBATCH --chdir=/data", (), False),
        ("#SBATCH -D /data", (), False),
        ("", ("-D", "/data"), False),
        ("", ("-D/data",), False),
        ("# --chdir=/data", ("--time=9",), True),
    ],
)
def test_a_job_runs_where_it_was_submitted_unless_an_option_says_where(
    tmp_path: Path, line: str, given: tuple[str, ...], stays: bool
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\ntrue\n")
    order = ordered(parse_ad("[]"), "-", "slurm", script=str(script), given=given)
    assert order.invocation.directory == (str(Path.cwd()) if stays else "")


def test_a_batch_system_that_is_not_there_is_bad_input(
    classad: Run, here: list[object], job: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    done = classad("submit", *job, *here, "--key", "k", "--wait", 0, "--json")
    assert done.status == 2
    assert "sbatch: no such command here" in done.err
    assert classad("jobs", *here, "--all").out == "no jobs\n"


def test_a_job_that_has_not_ended_is_refused_on_standard_error(
    submitted: Done, classad: Run, here: list[object]
) -> None:
    done = classad("acknowledge", "run-7", *here)
    assert done.status == 1
    assert "no result to take yet" in done.err
    assert "no result to take yet" not in done.out


def test_a_long_complaint_is_short_in_a_table(
    classad: Run, world: World, here: list[object], job: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    said = "sbatch: error: " + "; ".join(f"line {n} of what it said" for n in range(40))
    monkeypatch.setattr(world, "park", lambda *_, **__: NoAnswer(said))
    classad("submit", *job, *here, "--key", "k", "--wait", 0)
    row = classad("jobs", *here).out.splitlines()[1]
    assert row.endswith("...")
    assert len(row) < 200
    assert "line 30 of what it said" in classad("jobs", "k", *here).out
    monkeypatch.setattr(world, "look", lambda: NoAnswer(said))
    assert max(map(len, classad("reconcile", *here).out.splitlines())) < 200


def test_a_ledger_that_does_not_know_the_jobs_of_the_spool_is_not_sound(
    classad: Run, here: list[object], tmp_path: Path
) -> None:
    spool = SharedSpool(tmp_path / "jobs.db.spool")
    spool.prepare("run-7", 1, Payload(ad="[]", script="", content=b"#!/bin/sh\n"), "d1", "slurm")
    done = classad("jobs", "--check", *here)
    assert done.status == 1
    assert "jobs that the spool has: run-7; classad jobs --rebuild" in done.out
    assert classad("jobs", "--check", *here, "--spool", tmp_path / "other").status == 1


def test_a_service_outlives_a_ledger_that_is_locked(
    submitted: Done, classad: Run, here: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = transfers.opened
    tries = iter(["/none/jobs.db"])

    def opened(_place: object) -> Any:
        path = next(tries, here[1])
        return good(transfers.LedgerOptions(ledger=str(path), spool=None))

    monkeypatch.setattr(transfers, "opened", opened)
    done = classad("reconcile", *here, "--every", 60, "--until-done")
    assert done.status == 0
    assert "cannot be opened" in done.err
    assert "running -> done" in done.out


def test_without_sqlalchemy_it_says_what_to_install(
    classad: Run, here: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "sqlalchemy"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("database", "ledger"):
        monkeypatch.delitem(sys.modules, f"matchmaker.delegation.{name}", raising=False)
    done = classad("jobs", *here)
    assert done.status == 2
    assert "pip install 'classad-matchmaker[delegation]'" in done.err


def test_hostile_text_does_not_steer_a_terminal(classad: Run, tmp_path: Path) -> None:
    nasty = "\x1b[31m\x07\u202e[bold]x[/bold]\n"
    ledger = Ledger(tmp_path / "jobs.db")
    record = begin("k", time.time(), digest="d", cluster=nasty, owner=nasty).record
    ledger.add(
        [(attrs.evolve(record, reason=nasty, remote_id=nasty), Payload(ad="", script=""), nasty)]
    )
    ledger.close()
    for words in (["jobs"], ["jobs", "k"], ["jobs", "--all"], ["jobs", "--json"], ["cancel", "k"]):
        done = classad(*words, "--ledger", tmp_path / "jobs.db")
        assert not set("\x1b\x07\u202e") & set(done.out + done.err)
        assert "Traceback" not in done.err


def test_prune_removes_what_ended_long_ago_and_its_rooms(
    classad: Run, world: World, here: list[object], job: list[object], tmp_path: Path
) -> None:
    for key in ("old", "young", "live"):
        classad("submit", *job, *here, "--key", key)
    classad("cancel", "old", *here)
    world.pass_time(1000)
    for _ in range(2):
        classad("reconcile", *here)
    ledger = str(here[1])
    with contextlib.closing(Ledger(ledger)) as opened:
        spool = SharedSpool(Path(opened.get("old").spool or f"{ledger}.spool"))
        assert not opened.get("old").state.live
    with contextlib.closing(sqlite3.connect(ledger)) as raw:
        raw.execute("UPDATE transfers SET since = since - 90000 WHERE key = 'old'")
        raw.commit()
    (spool.root / "old" / "1").mkdir(parents=True, exist_ok=True)
    (spool.root / ".matchmaker-spool").write_text("matchmaker 1\n")
    tried = classad("jobs", "--prune", "1d", "--dry-run", *here)
    assert (tried.status, tried.out) == (0, "to remove: 1 job\n")
    done = classad("jobs", "--prune", "1d", *here, "--json")
    assert json.loads(done.out) == {"ended": 1, "removed": 1, "troubles": {}}
    assert not (spool.root / "old").exists()
    assert classad("jobs", "old", *here).status == 2
    with contextlib.closing(Ledger(ledger)) as opened:
        assert {r.key for r in opened.recent()} == {"young", "live"}
        assert opened.payload("old") is None
        assert opened.payload("young") is not None
        assert opened.history("old") == []
    assert classad("jobs", "--prune", "soon", *here).status == 2
    assert classad("jobs", "--dry-run", *here).status == 2


def test_reconcile_renews_the_leases_of_its_owner(
    classad: Run, world: World, here: list[object], job: list[object]
) -> None:
    world.length = 10_000.0
    classad("submit", *job, *here, "--key", "k", "--lease", 600)
    classad("submit", *job, *here, "--key", "other", "--lease", 600)
    with contextlib.closing(sqlite3.connect(str(here[1]))) as raw:
        raw.execute("UPDATE transfers SET owner = 'ana' WHERE key = 'other'")
        raw.commit()
    for _ in range(8):
        world.pass_time(250)
        assert classad("reconcile", *here, "--renew").status == 0
    states = {
        r["key"]: r["state"] for r in json.loads(classad("jobs", *here, "--all", "--json").out)
    }
    assert states["k"] in {"committed", "running"}
    assert states["other"] in {"cancelling", "cancelled"}


# --- many -----------------------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path: Path, job: list[object]) -> list[object]:
    """A file of jobs, and the other words."""
    file = tmp_path / "many.ad"
    file.write_text(
        '[ Requirements = other.MaxWall >= 60; Arguments = "1" ]'
        '[ Requirements = other.MaxWall >= 60; Arguments = "2"; Key = "own" ]'
        "[ Requirements = other.MaxWall >= 600 ]"
    )
    return ["--jobs", file, *job[1:]]


def test_many_jobs_are_one_command(
    classad: Run, world: World, here: list[object], many: list[object]
) -> None:
    done = classad("submit", *many, *here, "--key", "run", "--json")
    assert done.status == 1
    assert "keys run.N" in done.err
    rows = json.loads(done.out)
    assert [row["key"] for row in rows] == ["run.1", "own", "run.3"]
    assert [row.get("transfer", {}).get("state") for row in rows] == [
        "committed",
        "committed",
        None,
    ]
    assert "no queue matches the job" in rows[2]["refused"]
    assert world.calls["park"] == 2
    again = classad("submit", *many, *here, "--key", "run")
    assert again.status == 1
    assert world.calls["park"] == 2
    assert again.out.splitlines()[0] == "3 jobs: 2 committed, 1 refused"
    assert "run.3  no queue matches" in again.out


def test_nothing_of_a_file_is_handed_over_if_a_job_of_it_cannot_be(
    classad: Run, world: World, here: list[object], many: list[object]
) -> None:
    file = Path(str(many[1]))
    text = file.read_text()
    for more, said in (
        ('[ Key = "own" ]', "job 4: the key own is that of a job before it"),
        ('[ Key = "a b" ]', "job 4: a key has"),
        ("[ Arguments = 5 ]", "job 4: Arguments of the job must be a text"),
    ):
        file.write_text(text + more)
        done = classad("submit", *many, *here, "--key", "run")
        assert done.status == 2
        assert said in done.err
    assert world.calls["park"] == 0


def test_lines_that_scripts_lack_are_named_once(
    *, classad: Run, world: World, here: list[object], job: list[object], many: list[object],
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "site.toml").write_text('lines.profile = "module load gcc"\n')
    site = ("--mapping", tmp_path / "site.toml")
    said = f"classad: {tmp_path / 'job.sh'}: it lacks the line module load gcc\n"
    assert said in classad("submit", *job, *here, *site, "--key", "one").err
    done = classad("submit", *many, *here, *site, "--key", "run")
    assert done.err.count(said) == 1
    assert world.calls["park"] == 3
    # What is known by now is not told again.
    assert said not in classad("submit", *many, *here, *site, "--key", "run").err
    (tmp_path / "job.sh").write_text("#!/bin/sh\nmodule load gcc\n")
    assert said not in classad("submit", *many, *here, *site, "--key", "next").err


def test_many_without_a_key_say_by_which_they_are_repeated(
    classad: Run, world: World, here: list[object], many: list[object]
) -> None:
    done = classad("submit", *many, *here)
    key = done.err.rpartition("--key ")[2].strip()
    assert classad("submit", *many, *here, "--key", key).status == 1
    assert world.calls["park"] == 2


def test_of_many_jobs_it_is_said_what_is_left_out_and_what_waits(
    classad: Run, world: World, here: list[object], many: list[object]
) -> None:
    world.faults = {"park": ["nothing"] * 2}
    words = (*many, *here, "--wait", "0")
    own = ("--", "-J", "sim")
    done = classad("submit", *words, "--key", "run", *own)
    lines = done.out.splitlines()
    assert lines[0] == "3 jobs: 1 refused, 2 unknown"
    assert lines[1].startswith("left out of 2 jobs: the command line: -J sim: ")
    assert lines[2].startswith("next: classad reconcile")
    assert "the command failed" in done.out
    rows = json.loads(classad("submit", *words, "--key", "b", "--json", *own).out)
    left = [row.get("options", {}).get("left_out", []) for row in rows]
    # The second has a key of its own, which is known by now.
    assert [len(each) for each in left] == [1, 0, 0]
