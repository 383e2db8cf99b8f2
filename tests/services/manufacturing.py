"""A factory against real batch systems: its pilots take jobs from a directory.

A job is a file ``todo/NAME``; a pilot takes it by a rename to ``taken/NAME.KEY``, runs it, and
renames it to ``done/NAME``. Every start of a pilot and of a job writes a line, so that a test can
count them. The factory is a process that a test may kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from matchmaker.pilots.factory.services import PilotRow, Services
from tests.services.breakable import until

PILOT = """\
#!/bin/sh
# Takes jobs until it is asked to end, or has been idle for long.
home='{home}'
key=$(basename "$(dirname "$(dirname "$0")")")
say() {{ echo "$1" >"$home/reports/.$key" && mv "$home/reports/.$key" "$home/reports/$key"; }}
echo started >>"$home/pilots/$key"
idle=0
say starting
while [ ! -e "$home/reports/$key.end" ] && [ "$idle" -lt {patience} ]; do
	job=$(ls "$home/todo" | head -n 1)
	if [ -n "$job" ] && mv "$home/todo/$job" "$home/taken/$job.$key" 2>/dev/null; then
		say busy
		if [ -e "$home/reports/$key.end" ]; then
			mv "$home/taken/$job.$key" "$home/todo/$job"
			break
		fi
		echo "$key" >>"$home/ran/$job"
		sleep "$(cat "$home/taken/$job.$key")"
		mv "$home/taken/$job.$key" "$home/done/$job"
		idle=0
	else
		[ "$idle" -gt 0 ] || say idle
		idle=$((idle + 1))
		sleep 0.2
	fi
done
echo ended >>"$home/pilots/$key"
"""

DEMAND = """\
#!/bin/sh
# An ad for each job that waits or runs.
cd '{home}' || exit 1
[ ! -e silent ] || exit 1
for job in todo/*; do
	[ -e "$job" ] && printf '[ Id = "%s"; JobStatus = 1; Owner = "ann" ]\\n' "${{job#todo/}}"
done
for job in taken/*; do
	name=${{job#taken/}}
	[ -e "$job" ] && printf '[ Id = "%s"; JobStatus = 2; Owner = "ann" ]\\n' "${{name%.*}}"
done
exit 0
"""

SETTINGS = """\
ledger = "{ledger}"
spool = "{home}/our spool"
cycle = 1
beat = 2

[pilot]
script = "{home}/pilot.sh"
reports = "{home}/reports"
wall = 3600
request = '{request}'

[policy]
ad = "[ Grace = 3 ]"

[caps]
pilots = {most}

[deadlines]
settle = 0.5
absent = 2.0
hold = 300.0
margin = 5.0
cancel = 1.0
reply = 5.0
backoff = {backoff}

[[demand]]
command = ["{home}/demand.sh"]
"""


@attrs.define
class Factory:
    """A factory's files, its process, and what its pilots and their jobs left behind."""

    home: Path
    environment: Mapping[str, str]
    queues: str
    most: int = 4
    patience: int = 150
    backoff: float = 60.0
    ledger: str = ""
    request: str = "[]"
    program: tuple[str, ...] = (str(Path(sys.executable).with_name("classad")),)
    words: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    jobs: int = 0

    def prepare(self) -> None:
        for name in ("todo", "taken", "done", "ran", "pilots", "reports"):
            (self.home / name).mkdir()
            (self.home / name).chmod(0o777)
        for name, text in (("pilot.sh", PILOT), ("demand.sh", DEMAND)):
            path = self.home / name
            path.write_text(text.format(home=self.home, patience=self.patience))
            path.chmod(0o755)
        self.ledger = self.ledger or str(self.home / "jobs.db")
        self.file.write_text(
            SETTINGS.format(
                home=self.home,
                most=self.most,
                ledger=self.ledger,
                request=self.request,
                backoff=self.backoff,
            )
            + self.queues
        )

    @property
    def file(self) -> Path:
        return self.home / "grid.toml"

    def add(self, number: int, seconds: float = 1.0) -> None:
        """Adds jobs of some seconds each."""
        for _ in range(number):
            self.jobs += 1
            path = self.home / f"job-{self.jobs:04}"
            path.write_text(f"{seconds}\n")
            path.chmod(0o666)
            path.rename(self.home / "todo" / path.name)

    def command(self, *words: str) -> list[str]:
        return [*self.program, "factory", *words]

    def start(self) -> None:
        with (self.home / "factory.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command("run", str(self.file), *self.words), stdout=log, stderr=log,
                env={**os.environ, **self.environment},
            )  # fmt: skip

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(60)

    def tell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What a command of the factory's ledger prints."""
        return subprocess.run(
            self.command(*words, "--ledger", self.ledger), capture_output=True,
            text=True, check=False, timeout=100, env={**os.environ, **self.environment},
        )  # fmt: skip

    def status(self) -> dict[str, object]:
        done = self.tell("status", "--json")
        assert done.stdout, done.stderr
        (service,) = json.loads(done.stdout)
        assert isinstance(service, dict)
        return service

    def has_begun(self) -> bool:
        """Whether the process has taken the service."""
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        with contextlib.closing(Services(self.ledger)) as services:
            return any(one.pid == self.process.pid for one in services.all())

    def rows(self) -> list[PilotRow]:
        """Every pilot that was reserved."""
        with contextlib.closing(Services(self.ledger)) as services:
            return services.history(0.0)

    def count(self, folder: str) -> int:
        return len(list((self.home / folder).iterdir()))

    def all_done(self, seconds: float = 60.0) -> None:

        def there() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log()
            return self.count("done") == self.jobs

        until(there, f"{self.jobs} jobs done", seconds)

    def log(self) -> str:
        return (self.home / "factory.log").read_text()

    def each_once(self) -> None:
        """Every pilot and every job started once; nothing is half done."""
        for folder in ("pilots", "ran"):
            for path in (self.home / folder).iterdir():
                lines = path.read_text().splitlines()
                starts = [line for line in lines if line != "ended"]
                assert len(starts) == 1, (path.name, lines)
        assert (self.count("todo"), self.count("taken")) == (0, 0)

    def none_running(self) -> bool:
        """Whether every pilot that started has ended by itself."""
        return all("ended" in p.read_text() for p in (self.home / "pilots").iterdir())


@contextlib.contextmanager
def factory(made: Factory) -> Iterator[Factory]:
    """Runs a factory; at the end it is gone."""
    made.prepare()
    made.start()
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.kill()
