"""``classad binder`` and ``classad pilot`` on a running binder, and what they refuse."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchmaker.classad import ClassAd
from tests.cli.conftest import COMMAND, Run
from tests.pilots.real import Grid, grid


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Grid]:
    with grid(tmp_path) as running:
        running.binder()
        monkeypatch.setenv("CLASSAD_BINDER", running.address)
        monkeypatch.setenv("CLASSAD_BINDER_TOKEN", str(tmp_path / "client.token"))
        (tmp_path / "job.ad").write_text(
            '[ Cmd = "/bin/sh"; Arguments = {"-c", "echo $0; exit 3", "é"}; Requirements = true ]'
        )
        yield running


def test_jobs_from_their_submission_to_their_end(classad: Run, made: Grid, tmp_path: Path) -> None:
    job = tmp_path / "job.ad"
    first = json.loads(classad("binder", "submit", job, "--key", "k", "--json").out)
    assert (first["stage"], first["key"], first["owner"]) == ("queued", "k", "client")
    assert classad("binder", "submit", job, "--key", "k").out == f"{first['job']}\n"
    listed = classad("binder", "jobs", "--waiting", "--ads").out
    assert listed.startswith('[ Cmd = "/bin/sh"; ')
    assert f'BinderJob = "{first["job"]}"' in listed
    done = classad("pilot", "--token", made.pilot_token(), "--cpus", 1, "--idle", 0.5,
                   "--dir", tmp_path / "work", "--json")  # fmt: skip
    assert json.loads(done.out)["ended"] == "no job came in 0.5 s"
    assert list((tmp_path / "work").iterdir()) == []
    done = classad("binder", "submit", job, "--key", "k", "--wait", 5, "--json")
    ended = json.loads(done.out)
    assert (done.status, ended["stage"], ended["result"]["ExitCode"]) == (1, "ended", 3)
    assert ended["result"]["Out"] == "é\n"
    assert classad("binder", "jobs", first["job"]).out.endswith("Out:\n  é\n")
    done = classad("binder", "jobs", "--waiting")
    assert (done.status, done.out) == (1, "")
    status = json.loads(
        classad("binder", "status", "--token", tmp_path / "admin.token", "--json").out
    )
    assert (status["jobs"]["ended"], status["pilots"], status["slots"]) == (1, 0, 0)
    other = classad("binder", "submit", job, "--json")
    gone = classad("binder", "cancel", json.loads(other.out)["job"], "--reason", "no", "--json")
    assert (json.loads(gone.out)["stage"], json.loads(gone.out)["reason"]) == ("cancelled", "no")


def test_output_is_fetched_whole(classad: Run, made: Grid, tmp_path: Path) -> None:
    text = "yes 12345678 | head -c 20000; echo bad >&2; mkdir d; echo x > d/y; ln -s /etc/passwd l"
    ad = ClassAd(Cmd="/bin/sh", Arguments=["-c", text], Requirements=True, OutputFiles=["d/y", "l"])
    (tmp_path / "long.ad").write_text(str(ad))
    id_ = classad("binder", "submit", tmp_path / "long.ad", "--key", "k").out.strip()
    done = classad("binder", "output", id_)
    assert (done.status, done.out, done.err) == (
        1,
        "",
        f"classad: {id_} is queued: no pilot is connected: no output is there\n",
    )
    classad("pilot", "--token", made.pilot_token(), "--cpus", 1, "--idle", 0.5,
            "--dir", tmp_path / "work")  # fmt: skip
    whole = "12345678\n" * 2222 + "12"
    note = "classad: l: it is a link, and links are not followed\n"
    done = classad("binder", "output", id_)
    assert (done.status, done.out, done.err) == (0, whole, note)
    assert classad("binder", "output", id_, "--err").out == "bad\n"
    assert classad("binder", "output", id_, "--file", "d/y").out == "x\n"
    done = classad("binder", "output", id_, "--file", "l")
    assert (done.status, done.out) == (1, "")
    assert f"{id_} has no output file l" in done.err
    done = classad("binder", "output", id_, "--into", tmp_path / "all")
    assert (done.status, done.err) == (1, note)
    files = [each for each in (tmp_path / "all").rglob("*") if each.is_file()]
    assert {str(each.relative_to(tmp_path / "all")): each.read_text() for each in files} == {
        "out": whole, "err": "bad\n", "files/d/y": "x\n",
    }  # fmt: skip
    listed = json.loads(classad("binder", "output", id_, "--json").out)
    assert listed["out"] == {"size": 20000, "whole": True}
    done = classad("binder", "output", id_, "--err", "--into", tmp_path)
    assert (done.status, "give one of" in done.err) == (2, True)


def test_many_jobs_are_one_process(classad: Run, made: Grid, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    texts = [
        "/bin/sh -c 'echo $0' \"a b\"",
        "# a comment",
        "",
        *["true"] * 150,
        "/bin/sh -c 'exit 3'",
    ]
    lines.write_text("\n".join(texts))
    words = ("binder", "submit", "--jobs", lines, "--commands", "--key", "sweep")
    first = json.loads(classad(*words, "--json").out)
    assert [each["key"] for each in first[:2]] == ["sweep.1", "sweep.4"]
    assert len({each["job"] for each in first}) == 152
    again = json.loads(classad(*words, "--json").out)
    assert [each["job"] for each in again] == [each["job"] for each in first]
    made.pilot("p", "--cpus", 8)
    done = classad(*words, "--wait", 100)
    assert (done.status, done.out.splitlines()[0]) == (1, "152 jobs: 1 ended badly, 151 ended well")
    assert "sweep.154" in done.out
    assert "ExitCode 3" in done.out
    assert classad("binder", "output", first[0]["job"]).out == "a b\n"
    # A key that stands for another job is refused, and the others are not.
    lines.write_text("\n".join(["false", *texts[1:]]))
    done = classad(*words)
    assert (done.status, done.out.splitlines()[0]) == (1, "152 jobs: 151 ended, 1 refused")
    assert "has another ad" in done.out


def test_ads_of_a_file_have_keys_and_what_all_have(
    classad: Run, made: Grid, tmp_path: Path
) -> None:
    (tmp_path / "common.ad").write_text('[ Cmd = "/bin/echo"; Requirements = true ]')
    (tmp_path / "jobs.json").write_text(
        '[{"Key": "mine", "Arguments": ["1"]}, {"Arguments": ["2"], "Cmd": "/bin/false"}]'
    )
    words = ("binder", "submit", tmp_path / "common.ad", "--jobs", tmp_path / "jobs.json")
    done = classad(*words, "--json")
    first, second = json.loads(done.out)
    assert (done.status, first["key"], second["key"][-2:]) == (0, "mine", ".2")
    prefix = second["key"][:-2]
    assert f"repeat the same file with --key {prefix}" in done.err
    found = json.loads(classad(*words, "--key", prefix, "--json").out)
    assert [each["job"] for each in found] == [first["job"], second["job"]]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("true\nsh -c 'x", ["--commands"], "line 2: No closing quotation"),
        ("true\n\xff\xfe", ["--commands"], "line 2: "),
        ('[ Cmd = "a" ]\n[ Cmd = 3 ]', [], "job 2: Cmd is 3"),
        ('[ Cmd = "a"; Key = "k" ]\n[ Cmd = "a"; Key = "k" ]', [], "job 2: the key k is"),
        ("# nothing", ["--commands"], "no job was found"),
        ('[ Cmd = "a" ]\n[ Cmd = ', [], "line 2"),
    ],
)
def test_nothing_of_a_bad_file_is_handed_in(
    classad: Run, tmp_path: Path, text: str, more: list[str], said: str
) -> None:
    (tmp_path / "bad").write_bytes(text.encode("latin-1"))
    done = classad("binder", "submit", "--jobs", tmp_path / "bad", *more)
    assert (done.status, said in done.err, done.out) == (2, True, ""), done.err
    assert classad("binder", "jobs").status == 1


def test_nobody_types_and_no_slot_comes(made: Grid, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "binder", "connect", tmp_path / "job.ad", "--seconds", "0.2"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as asked:  # fmt: skip
        assert asked.stderr is not None
        assert "no slot came in 0.2 s" in asked.stderr.read()
        assert asked.wait(10) == 1


def test_a_pair_ends_while_nobody_types(made: Grid, tmp_path: Path) -> None:
    made.pilot("p")
    (tmp_path / "echo.ad").write_text('[ Cmd = "/bin/echo"; Requirements = true ]')
    for _ in range(5):
        with subprocess.Popen(
            [*COMMAND, "binder", "connect", tmp_path / "echo.ad", "--seconds", "30"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as asked:  # fmt: skip
            assert asked.stdout is not None
            assert asked.stderr is not None
            assert (asked.stdout.read(), asked.stderr.read()) == ("\n", "")
            assert asked.wait(10) == 0


def test_a_binder_whose_port_is_taken_leaves_the_other_alone(
    classad: Run, made: Grid, tmp_path: Path
) -> None:
    again = classad("binder", "run", "--folder", tmp_path, "--listen", made.address)
    assert (again.status, again.out) == (2, "")
    assert "address already in use" in again.err
    assert classad("binder", "submit", tmp_path / "job.ad").status == 0


def test_no_slot_is_no_match_and_says_why(classad: Run, made: Grid, tmp_path: Path) -> None:
    done = classad("binder", "connect", tmp_path / "job.ad", "--seconds", 0.2)
    assert done.status == 1
    assert "no slot came in 0.2 s: no pilot is connected" in done.err


def test_what_is_refused(classad: Run, made: Grid, tmp_path: Path) -> None:
    job, admin = tmp_path / "job.ad", tmp_path / "admin.token"
    for words, said in (
        (("jobs", "nope"), "there is no job 'nope' of yours"),
        (("status",), "scope client does not allow 'admin'"),
        (("submit", job, "--key", "a\tb"), "printable characters"),
        (("submit", tmp_path / "none.ad"), "none.ad"),
        (("jobs", "--at", "nowhere"), "HOST:PORT was expected"),
        (("jobs", "--at", "192.0.2.1:1"), "a certificate to check is needed"),
        (("jobs", "--token", job), "this is no token"),
        (("run", "--folder", tmp_path, "--listen", "0.0.0.0:0"), "a certificate and its key"),
        (("token", "client", "a b", "--folder", tmp_path), "visible characters"),
    ):
        done = classad("binder", *words)
        assert done.status == 2, words
        assert said in done.err, (words, done.err)
        assert "Traceback" not in done.err
    text = json.loads(
        classad("binder", "token", "client", "eve", "--folder", tmp_path, "--json").out
    )
    (tmp_path / "eve").write_text(text["token"])
    assert classad("binder", "jobs", "--token", tmp_path / "eve").status == 1
    assert classad("binder", "revoke", text["id"], "--token", admin).status == 0
    assert "was revoked" in classad("binder", "jobs", "--token", tmp_path / "eve").err


def test_tokens_and_keys_are_for_their_owner_alone(classad: Run, tmp_path: Path) -> None:
    file = tmp_path / "token"
    words = ("token", "pilot", "farm", "--folder", tmp_path, "--to", file)
    assert classad("binder", *words).status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    before = file.read_text()
    done = classad("binder", *words)
    assert (done.status, file.read_text()) == (2, before)
    (tmp_path / "key").chmod(0o644)
    assert "others may read this key" in classad("binder", *words[:-2]).err
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "key").write_text("short")
    assert "64 digits of base 16" in classad("binder", *words[:-2]).err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "token"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--app", "x"), "NAME=WORDS was expected"),
        (("--policy", "policy.ad"), "Strat is none of Start"),
        (("--ad", "broken.ad"), "broken.ad"),
    ],
)
def test_a_pilot_refuses_bad_words(
    classad: Run, tmp_path: Path, words: tuple[str, ...], said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("policy.ad").write_text("[ Strat = true ]")
    Path("broken.ad").write_text("[ a = ")
    Path("token").write_text("x")
    done = classad("pilot", "--binder", "127.0.0.1:1", "--token", "token", *words)
    assert done.status == 2
    assert said in done.err
