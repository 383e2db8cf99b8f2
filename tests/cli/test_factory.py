"""``classad factory``: its files, its list of services, and bad input."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request
from pathlib import Path

import attrs
import pytest

from matchmaker.pilots.factory.metrics import metrics, serve
from matchmaker.pilots.factory.services import Reservation, Service, Services
from tests.cli.conftest import Run
from tests.services.daemons import free_port

GOOD = """
ledger = "jobs.db"
cycle = 1
[pilot]
script = "pilot.sh"
[[demand]]
file = "jobs.ads"
[[queue]]
name = "main"
site = "here"
lrms = "slurm"
words = ["--partition=main"]
"""


TOKEN = "of one process"  # noqa: S105 - no secret


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pilot.sh").write_text("#!/bin/sh\n")
    (tmp_path / "jobs.ads").write_text("[ JobStatus = 4 ]")
    path = tmp_path / "grid.toml"
    path.write_text(GOOD)
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cycle = 1", "cycel = 1", "no key is called 'cycel'; perhaps cycle is meant"),
        ("cycle = 1", "cycle = -1", "cycle: found -1; expected a number of seconds above 0"),
        ("cycle = 1", "cycle = nan", "cycle: found nan; expected a number of seconds above 0"),
        ("cycle = 1", "cycle = = 1", "not TOML: "),
        ("[pilot]", "[pilots]", "no key is called 'pilots'; perhaps pilot is meant"),
        ('script = "pilot.sh"', "", "[pilot] script is missing"),
        ('script = "pilot.sh"', 'script = "none.sh"', "none.sh is no file"),
        ('script = "pilot.sh"', "script = 7", "[pilot] script: found 7; expected a text"),
        ('file = "jobs.ads"', "", "[[demand]] 1: found none of file, command, condor, ledger"),
        ('file = "jobs.ads"', 'file = "a"\nledger = "."', "found file and ledger of"),
        ('file = "jobs.ads"', 'file = "a"\nwall = "1 +"', "[[demand]] 1 wall: found '1 +'"),
        ('lrms = "slurm"', "", "[[queue]] 1 lrms is missing"),
        ('words = ["--partition=main"]', 'words = "-p"', "expected a list of texts"),
        ('words = ["--partition=main"]', "rate = 0", "found 0; expected a number of submissions a"),
        ("[[demand]]", '[policy]\nad = "[ Copise = 1 ]"\n[[demand]]', "perhaps Copies is meant"),
        ("[[demand]]", '[policy]\nad = "[ Copies = -1 ]"\n[[demand]]', "a number of at least 0"),
        ("[[demand]]", "[deadlines]\nsetle = 1\n[[demand]]", "perhaps settle is meant"),
        ("[[demand]]", "[metrics]\nport = 0\n[[demand]]", "port: found 0; expected a number of"),
        ("cycle = 1", "policy = 7", "policy: found 7; expected a table"),
        ("cycle = 1", "source = []", "source: found []; expected tables [[source]]"),
        ("cycle = 1", "source = [1]", "[[source]] 1: found 1; expected a table"),
        ('lrms = "slurm"', 'lrms = "s"\ncluster = "a b"', "[[queue]] 1 cluster: found 'a b'; exp"),
        ('lrms = "slurm"', 'lrms = "s"\nad = "[ x ="', "[[queue]] 1 ad: found '[ x ='; expected "),
        ('lrms = "slurm"', 'lrms = "s"\nclustr = "a"', "[[queue]] 1 no key is called 'clustr'; "),
        ("[[demand]]", '[deadlines]\nsettle = "x"\n[[demand]]', "found 'x'; expected a number"),
        ("[[demand]]", "[deadlines]\nattempts = 1.5\n[[demand]]", "found 1.5; expected a whole"),
        ("[[demand]]", "[deadlines]\nreply = -1\n[[demand]]", "[deadlines] reply must be a number"),
        ('"jobs.db"', '"postgresql://h/d"', "spool is missing"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_the_place(
    classad: Run, file: Path, old: str, new: str, said: str
) -> None:
    file.write_text(GOOD.replace(old, new, 1))
    done = classad("factory", "run", str(file), "--cycles", "1")
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert not (file.parent / "jobs.db").exists()


def test_a_file_is_checked_and_its_queues_are_listed(classad: Run, file: Path) -> None:
    assert classad("factory", "run", str(file), "--check").out.endswith(": all is well\n")
    done = classad("factory", "list-queues", str(file))
    assert done.status == 0
    assert done.out.splitlines()[1].split() == ["main", "here", "slurm", "24", "h",
                                                "--partition=main"]  # fmt: skip
    (queue,) = json.loads(classad("factory", "list-queues", str(file), "--json").out)
    assert (queue["queue"], queue["system"], queue["closed"]) == ("main", "slurm", "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"--partition=main"', '"--hold"', "[[queue]] 1 words: --hold: when a job may start is de"),
        ('"--partition=main"', '"--partition"', "1 words: the option --partition lacks its value"),
        ('"--partition=main"', '"job.sh"', "1 words: 'job.sh' is none of the options that may be"),
        ('lrms = "slurm"', 'lrms = "slurn"', "[[queue]] 1 lrms: "),
        ("[[queue]]", '[[source]]\nads = "q.ads"\nlrms = "slurm"\nwords = ["-H"]\n[[queue]]',
         "[[source]] 1 words: -H: when a job may start is decided"),
        ("#!/bin/sh", "#!/bin/sh\n#SBATCH --hold", "[pilot] script: line 2: --hold: when a job m"),
        ('script = "pilot.sh"', 'script = "none.sh"', "none.sh is no file"),
    ],
)  # fmt: skip
def test_options_that_a_submission_refuses_are_found_by_the_check(
    classad: Run, file: Path, old: str, new: str, said: str
) -> None:
    for path in (file, file.parent / "pilot.sh"):
        path.write_text(path.read_text().replace(old, new, 1))
    done = classad("factory", "run", str(file), "--check")
    assert (done.status, done.out) == (2, "")
    assert said in done.err


def test_a_silent_source_of_queues_is_named(classad: Run, file: Path) -> None:
    file.write_text(GOOD + '[[source]]\nldif = "none.ldif"\n')
    done = classad("factory", "list-queues", str(file))
    assert done.status == 1
    assert "silent: " in done.err
    assert "none.ldif: No such file or directory" in done.err


def test_queues_of_a_dump_get_their_options_from_the_pilots_request(
    classad: Run, file: Path
) -> None:
    site = Path(__file__).resolve().parents[2] / "examples" / "site.ldif"
    text = GOOD.replace(
        "[[demand]]", 'request = "[ Requirements = other.GlueHostMainMemoryRAMSize >= 500 ]"\n'
        '[[demand]]', 1,
    )  # fmt: skip
    file.write_text(f'{text}\n[[source]]\nldif = "{site}"\nlrms = "slurm"\nmax_pilots = 9\n')
    done = classad("factory", "list-queues", str(file), "--json")
    found = [queue for queue in json.loads(done.out) if queue["queue"] != "main"]
    assert found
    assert all(queue["max_pilots"] == 9 for queue in found)
    assert any("--mem=500M" in queue["words"] or queue["closed"] for queue in found)


def test_a_run_leaves_a_true_record_and_the_next_goes_on(classad: Run, file: Path) -> None:
    ledger = str(file.parent / "jobs.db")
    for cycles in (2, 3):
        done = classad("factory", "run", str(file), "--cycles", "1" if cycles == 3 else "2")
        assert done.status == 0, done.err
        assert "grid: it made as many cycles as it should" in done.err
        (service,) = json.loads(classad("factory", "status", "--ledger", ledger, "--json").out)
        assert (service["state"], service["cycles"]) == ("stopped", cycles)
        assert (service["serves"], service["facts"]["waiting"]) == ("all sites", 0)
    shown = classad("factory", "status", "--ledger", ledger).out
    assert shown.splitlines()[1].startswith("grid     stopped  all sites")
    assert classad("factory", "stop", "--ledger", ledger).out.startswith("grid: stopped: ")
    done = classad("factory", "stop", "gird", "--ledger", ledger)
    assert (done.status, "no service is called 'gird'; there are: grid" in done.err) == (2, True)


def test_a_service_serves_a_queue_or_a_site(classad: Run, file: Path) -> None:
    more = '[[queue]]\nname = "other"\nsite = "there"\nlrms = "slurm"\n'
    file.write_text(GOOD + more)
    done = classad("factory", "run", str(file), "--cycles", "1", "--site", "there", "--json")
    held = {queue["queue"]: queue["held"] for queue in json.loads(done.out)["queues"]}
    assert held["main"] == "this service does not submit there"
    # Where no Slurm answers it is held back too, for that reason.
    assert not held["other"].startswith("this service")


def test_the_numbers_are_open_metrics_on_loopback() -> None:
    facts = {
        "waiting": None, "running": 2, "silent": ["x"], "target": 3,
        "queues": [{"queue": 'q"1', "site": "s", "held": "why", "median": 30.0,
                    "pilots": {"queued": 1, "busy": 2}}],
    }  # fmt: skip
    service = Service(
        name="grid",
        token=TOKEN,
        started=1.0,
        beat=2.0,
        cycles=5,
        facts=facts,
    )
    names = {sample.name: sample.value for one in metrics(service) for sample in one.samples}
    assert names["classad_factory_cycles_total"] == 5
    assert names["classad_factory_sources_silent"] == 1
    # Unknown is not zero.
    assert "classad_factory_jobs_waiting" not in names
    port = free_port()
    stop = serve(port, lambda: attrs.evolve(service))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        stop()
    assert 'classad_factory_pilots{queue="q\\"1",service="grid",site="s",state="busy"} 2.0' in text


def test_no_services(classad: Run, tmp_path: Path) -> None:
    ledger = str(tmp_path / "jobs.db")
    done = classad("factory", "status", "--ledger", ledger)
    assert (done.status, done.out) == (1, "no services\n")
    done = classad("factory", "stop", "--ledger", ledger)
    assert (done.status, "there are none" in done.err) == (2, True)


def test_a_dead_process_is_on_record(classad: Run, tmp_path: Path) -> None:
    ledger = str(tmp_path / "jobs.db")
    with contextlib.closing(Services(ledger)) as services:
        services.begin(
            Service(name="grid", token=TOKEN, started=1.0, beat=1.0, host="far"),
            lambda _: False,
        )
    done = classad("factory", "status", "--ledger", ledger)
    assert done.status == 1
    assert "its process is gone" in done.out


def test_pilots_of_a_stopped_service_are_ended_or_it_is_said_why_not(
    classad: Run, file: Path
) -> None:
    ledger = str(file.parent / "jobs.db")
    classad("factory", "run", str(file), "--cycles", "1")
    with contextlib.closing(Services(ledger)) as services:
        (known,) = services.all()
        taken = services.begin(attrs.evolve(known, state="running"), lambda _: True)
        keys = iter(["p1", "p2"])
        for row in services.reserve(taken, [Reservation("main", "slurm", 2)], 1.0, keys.__next__):
            services.hand_over(taken, row, 1.0)
        services.save(attrs.evolve(taken, state="stopped"))
    done = classad("factory", "stop", "--end-pilots", "--ledger", ledger)
    assert done.status == 0, done.err
    assert "2 of 2 pilots were asked to end" in done.out
    with contextlib.closing(Services(ledger)) as services:
        assert [one.wish for one in services.all()] == [""]
    file.unlink()
    done = classad("factory", "stop", "--end-pilots", "--ledger", ledger)
    assert done.status == 1
    assert "were not ended: its settings cannot be read" in done.err


JOBS = """
[ Id = "j1"; JobStatus = 1; Owner = "ann" ]
[ Id = "j2"; JobStatus = 1; Owner = "ann" ]
[ Id = "j3"; JobStatus = 2; Owner = "ann" ]
"""


def test_why_says_it_with_numbers_and_after_the_factory_has_ended(classad: Run, file: Path) -> None:
    ledger = str(file.parent / "jobs.db")
    (file.parent / "jobs.ads").write_text(JOBS)
    # The site is one of another service, so that nothing is submitted, whatever is installed.
    file.write_text(GOOD + '[[queue]]\nname = "other"\nsite = "there"\nlrms = "slurm"\n')
    done = classad("factory", "run", str(file), "--cycles", "1", "--site", "nowhere")
    assert done.status == 0, done.err
    done = classad("factory", "why", "main", "--ledger", ledger)
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(
        r"main: no pilot to submit in cycle 1 of grid, \d+ s ago: this service does not submit"
        r" there; no pilots there, at most 1 submitted a second; on record: 0 submitted, 0 started,"
        r" 0 ended, 0 lost, 0 refused; grid has stopped: it made as many cycles as it should\n",
        done.out,
    ), done.out
    (found,) = json.loads(classad("factory", "why", "j1", "--ledger", ledger, "--json").out)
    assert (found["subject"], found["name"], found["submitted"]) == ("job", "j1", 0)
    assert (
        "one of 2 waiting jobs of its kind, for 0 s: all queues that match are left out, 2 in n"
        in (found["sentence"])
    )
    assert "it runs, and needs no pilot" in classad("factory", "why", "j3", "--ledger", ledger).out
    done = classad("factory", "why", "j4", "--ledger", ledger)
    assert (done.status, done.out) == (1, "")
    assert "no service knows a queue or a job 'j4'; queues are: main, other" in done.err
    assert classad("factory", "why", "--ledger", ledger).status == 2
    # A job that is gone is known no more.
    (file.parent / "jobs.ads").write_text(JOBS.replace("j1", "j5"))
    classad("factory", "run", str(file), "--cycles", "1", "--site", "nowhere")
    assert classad("factory", "why", "j1", "--ledger", ledger).status == 1


def test_why_says_that_a_source_of_demand_is_silent(classad: Run, file: Path) -> None:
    ledger = str(file.parent / "jobs.db")
    (file.parent / "jobs.ads").write_text(JOBS)
    file.write_text(GOOD + '[[demand]]\nfile = "none.ads"\n')
    classad("factory", "run", str(file), "--cycles", "1", "--site", "nowhere")
    said = r"1 of 2 sources of demand has been silent for \d+ s"
    for name in ("main", "j1"):
        done = classad("factory", "why", name, "--ledger", ledger)
        assert done.status == 0
        assert re.search(f"; {said};", done.out), done.out
    done = classad("factory", "why", "j4", "--ledger", ledger)
    assert (done.status, done.out) == (1, "")
    assert re.search(f"grid: {said}; the job may be one of theirs", done.err), done.err
    # If none answers, nobody knows that no job waits.
    (file.parent / "jobs.ads").unlink()
    classad("factory", "run", str(file), "--cycles", "1")
    done = classad("factory", "why", "main", "--ledger", ledger)
    assert "2 of 2 sources of demand have been silent for up to " in done.out
    assert "no job waits" not in done.out


def test_events_of_a_factory_are_logged_by_option(classad: Run, file: Path) -> None:
    run = ("factory", "run", str(file), "--cycles", "1", "--site", "nowhere")
    assert " info pilots" not in classad(*run).err
    log = file.parent / "log"
    classad(*run, "--log-file", str(log), "--log-json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    events = [event for event in lines if event["module"].startswith("pilots.factory")]
    assert [event["event"] for event in events] == [
        "service started", "queue held", "cycle", "service ended",
    ]  # fmt: skip
    assert (events[1]["queue"], events[2]["waiting"]) == ("main", 0)
    assert {event["level"] for event in events} == {"info"}
