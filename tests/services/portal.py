"""A naive portal: it hands orders over, reads what it is told, and does what the message says.

Each call runs in a process of its own, from a directory of its own and with an environment of its
own. Many are killed (``kill -9``). What an order's payload did is in a file, a line for each start.

``python -m tests.services.portal`` is the process that makes these calls: it reads a call as JSON
from a line, forks, and prints the number of the process and how it ended. That the command is
loaded already saves the half second of each start.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

LEDGER: Final = ("CLASSAD_LEDGER", "CLASSAD_SPOOL", "CLASSAD_DEADLINES")
_KEY: Final = re.compile(r"^(?:classad: )?key ([^\s:]+)", re.MULTILINE)
_ODD: Final = ("plain", "with a space", "q\"u'o$te`s\\", "two\nlines", "\u00e9\u03bb", "=;&|<>", "")
_PAYLOAD: Final = """\
#!/bin/sh
# order {nonce}: {odd}
printf '%s %s %s %s %s\\n' "$SLURM_JOB_NAME" "$(pwd | base64 -w0)" "$(env -0 | base64 -w0)" \
"$(umask)" "$(for word; do printf '%s\\0' "$word"; done | base64 -w0)" >>'{file}'
"""


@attrs.frozen
class Start:
    """One start of a payload, as it told of itself."""

    name: str
    directory: str
    environment: Mapping[str, str]
    umask: int
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, line: str) -> Start:
        name, *texts = line.split(" ")
        pwd, env, mask, words = texts

        def read(text: str) -> str:
            return base64.b64decode(text).decode("utf-8", "surrogateescape")

        pairs = (each.partition("=") for each in read(env).split("\0") if each)
        return cls(
            name, read(pwd).removesuffix("\n"), {one: text for one, _, text in pairs},
            int(mask, 8), tuple(read(words).split("\0")[:-1]),
        )  # fmt: skip


@attrs.frozen
class Call:
    """One call of a command: from where, with which variables, and what came of it."""

    number: int
    directory: Path
    environment: Mapping[str, str]
    umask: int
    killed: bool = False
    status: int | None = None
    out: str = ""
    err: str = ""


@attrs.define
class Order:
    """What the portal wants done once, whatever keys it takes for it.

    Attributes:
        nonce: its name at the portal.
        way: how it is handed over: by the command, by the command in a file of several, or by a
            program.
        key: the key that it goes by now; None until the portal knows one.
        keys: all keys that it ever went by.
        calls: the calls that handed it over, or tried to.
        taken: the number of the call after which it is on record.
        since: when that call had ended.
    """

    nonce: str
    way: str
    arguments: tuple[str, ...]
    key: str | None
    keys: list[str] = attrs.Factory(list)
    calls: list[Call] = attrs.Factory(list)
    taken: int | None = None
    since: float = 0.0
    state: str = ""
    ended: bool = False


@attrs.define
class Portal:
    """Hands orders over, follows them, and takes their results.

    Attributes:
        folder: where everything is.
        seed: chooses what differs between calls, and what is killed.
        settings: the ledger, the spool and the deadlines: CLASSAD_… variables.
        paths: the folders of PATH; those of the batch system's commands come first.
        site: the variables by which the batch system's commands find their server.
    """

    folder: Path
    seed: int
    settings: Mapping[str, str]
    paths: Sequence[str]
    site: Mapping[str, str]
    orders: dict[str, Order] = attrs.Factory(dict)
    tally: Counter[str] = attrs.Factory(Counter)
    said: list[str] = attrs.Factory(list)
    open_: threading.Event = attrs.Factory(threading.Event)
    _busy: int = 0
    _number: int = 0
    lock: threading.Lock = attrs.Factory(threading.Lock)
    _times: list[float] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        (self.folder / "starts").mkdir(parents=True)
        self.open_.set()

    # --- calls ------------------------------------------------------------------------------------

    def scene(self) -> tuple[int, random.Random, Call]:
        """A new directory, and an environment unlike the others."""
        with self.lock:
            self._number += 1
            number = self._number
        chance = random.Random(f"{self.seed}.{number}")
        directory = self.folder / "from" / f"{number}{chance.choice(('', ' é', ' a b', '.d'))}"
        directory.mkdir(parents=True)
        extra = [str(directory), "/opt/none/bin", "/usr/local/games"]
        chance.shuffle(extra)
        first, *rest = self.paths
        chance.shuffle(rest)
        environment = {
            **self.site, **self.settings, "PATH": os.pathsep.join([first, *rest, *extra[:2]]),
            "HOME": str(directory), "LANG": chance.choice(("C.UTF-8", "C", "de_DE.UTF-8")),
            "TZ": chance.choice(("UTC", "Asia/Tokyo", "America/Lima")),
            "PORTAL_CALL": str(number), "PORTAL_ODD": chance.choice(_ODD),
            f"ONLY_{number}": "1",
        }  # fmt: skip
        umask = chance.choice((0o022, 0o077, 0o027, 0o002))
        return number, chance, Call(number, directory, environment, umask)

    def call(
        self, forks: Forks, argv: Sequence[str] | None, order: Mapping[str, Any] | None = None,
        *, kills: float, scene: tuple[int, random.Random, Call] | None = None,
    ) -> Call:  # fmt: skip
        """Runs the command, or hands an order over by a program; kills some of the calls."""
        _, chance, made = scene if scene is not None else self.scene()
        after = chance.uniform(0, self.typical()) if chance.random() < kills else None
        for name in (".out", ".err"):
            (made.directory / name).touch()
        begun = time.monotonic()
        status = forks.run(made, argv, order, after)
        if after is None:
            with self.lock:
                self._times.append(time.monotonic() - begun)
        killed = status == -signal.SIGKILL
        self.tally["calls"] += 1
        self.tally["killed"] += killed
        return attrs.evolve(
            made, killed=killed, status=status,
            out=(made.directory / ".out").read_text(errors="replace"),
            err=(made.directory / ".err").read_text(errors="replace"),
        )  # fmt: skip

    def typical(self) -> float:
        """How long a call takes at present."""
        with self.lock:
            times = sorted(self._times[-50:])
        return times[len(times) // 2] if times else 1.0

    def reconcile(self, forks: Forks) -> None:
        """Reconciles again and again, until it is killed, sooner or later."""
        _, chance, made = self.scene()
        marked = attrs.evolve(made, environment={**made.environment, "RECONCILER": "1"})
        argv = ["reconcile", "--every", "0.5", "--lrms", "slurm"]
        after = chance.choice((1, 3, 10, 30)) * chance.uniform(0, self.typical())
        status = forks.run(marked, argv, None, after)
        assert status == -signal.SIGKILL, (status, (made.directory / ".err").read_text())

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Calls that go on when the portal is closed are awaited, and no new ones begin."""
        while True:
            self.open_.wait()
            with self.lock:
                if self.open_.is_set():
                    self._busy += 1
                    break
        try:
            yield
        finally:
            with self.lock:
                self._busy -= 1

    def idle(self) -> bool:
        """Whether no call is under way."""
        with self.lock:
            return self._busy == 0

    # --- handing over -----------------------------------------------------------------------------

    def order(self, nonce: str, chance: random.Random) -> Order:
        """A new order; for some the portal chooses the key, for others the command does."""
        way = chance.choice(("command", "file", "program"))
        key = nonce if way == "file" or chance.random() < 0.6 else None
        # A line break is refused by the command.
        some = [text for text in _ODD if way == "program" or "\n" not in text]
        arguments = tuple(chance.sample(some, chance.randrange(3)))
        made = Order(nonce, way, arguments, key)
        self.orders[nonce] = made
        return made

    def script(self, order: Order) -> str:
        file = self.folder / "starts" / order.nonce
        odd = base64.b64encode(order.nonce.encode()).decode()
        return _PAYLOAD.format(nonce=order.nonce, odd=odd, file=file)

    def starts(self, order: Order) -> list[Start]:
        path = self.folder / "starts" / order.nonce
        lines = path.read_text().splitlines() if path.exists() else []
        return [Start.of(line) for line in lines]

    def hand_over(
        self, orders: Sequence[Order], forks: Forks, *, kills: float, tries: int = 40
    ) -> None:
        """Hands orders over, and again by what the command says, until they are on record.

        Several are in one file.
        """
        left = list(orders)
        for _ in range(tries):
            with self.calling():
                scene = self.scene()
                done = self._try(left, forks, scene, kills=kills)
            for order in left:
                order.calls.append(done)
            there = self._understood(left, done)
            for order in there:
                order.taken = done.number if order.taken is None else order.taken
                order.since = time.monotonic()
            left = [order for order in left if order not in there]
            if not left:
                return
        raise AssertionError(f"{left[0].nonce} cannot be handed over: {self.said[-3:]}")

    def _try(
        self, orders: Sequence[Order], forks: Forks, scene: tuple[int, random.Random, Call], *,
        kills: float,
    ) -> Call:  # fmt: skip
        _, chance, made = scene
        order = orders[0]
        for each in orders:
            (made.directory / f"{each.nonce}.sh").write_text(self.script(each))
            if each.key is not None and each.key not in each.keys:
                each.keys.append(each.key)
        script = f"{order.nonce}.sh"
        (made.directory / "ce.ad").write_text("\n".join(
            f'[ CEid = "ce:1/x-slurm-{queue}"; Wall = 100; Free = {chance.randrange(9)} ]'
            for queue in ("main", "other")
        ))  # fmt: skip
        argv = ["submit", "--ce", "ce.ad", "--lrms", "slurm", "--wait", chance.choice("001")]
        if order.way == "program":
            wanted = {"nonce": order.nonce, "key": order.key, "script": script,
                      "arguments": order.arguments}  # fmt: skip
            done = self.call(forks, None, wanted, kills=kills, scene=scene)
        elif order.way == "file":
            (made.directory / "jobs.ads").write_text("\n".join(map(_job, orders)))
            argv += ["--jobs", "jobs.ads", "--json", "--", "--output=/dev/null"]
            done = self.call(forks, argv, kills=kills, scene=scene)
        else:
            (made.directory / "job.ad").write_text(
                f'[ Environment = {{ "FROM_AD={order.nonce}" }};'
                " Requirements = other.Wall >= 60; Rank = other.Free ]"
            )
            argv += ["job.ad", "--script", script, "--args", shlex.join(order.arguments)]
            argv += [] if order.key is None else ["--key", order.key]
            done = self.call(forks, [*argv, "--", "--output=/dev/null"], kills=kills, scene=scene)
        # They have been read, or not: what is there now is another script, or none.
        for each in orders:
            path = made.directory / f"{each.nonce}.sh"
            if chance.random() < 0.5:
                path.unlink()
            elif chance.random() < 0.7:
                file = self.folder / "starts" / each.nonce
                path.write_text(f"#!/bin/sh\necho WRONG >>'{file}'\n")
        return done

    def _understood(self, orders: Sequence[Order], done: Call) -> list[Order]:
        """Does what is said; the orders that are handed over."""
        if orders[0].way == "file":
            return self._listed(orders, done)
        (order,) = orders
        printed = _KEY.search(done.err)
        if printed is not None:
            order.key = printed[1]
            if order.key not in order.keys:
                order.keys.append(order.key)
        if done.killed:
            # Who chose the key has written it down; who has seen none knows that none is on record.
            return []
        if done.status == 0:
            assert order.key is not None, done
            return [order]
        self._note(order, done)
        if "stands for another order" in done.err:
            self.tally["key taken"] += 1
            self._anew(order)
        elif done.status == 1:
            self.failed(order, done.out)
        elif printed is None:
            # No word that anything may be on record.
            self.tally["nothing was done"] += 1
            self._anew(order)
        return []

    def _listed(self, orders: Sequence[Order], done: Call) -> list[Order]:
        """Does what is said of each job of a file; without a list, all are handed over again."""
        if done.killed or not done.out.strip():
            if not done.killed:
                self._note(orders[0], done)
            return []
        rows = {row["key"]: row for row in json.loads(done.out)}
        there = []
        for order in orders:
            assert order.key is not None
            row = rows[order.key]
            if "transfer" not in row:
                self.said.append(f"{order.nonce} in a file: {row['refused']}")
                if "stands for another order" in row["refused"]:
                    self.tally["key taken"] += 1
                    self._anew(order)
            elif row["transfer"]["state"] in {"failed", "lost", "cancelled"}:
                self.failed(order, row["transfer"]["reason"])
            else:
                there.append(order)
        return there

    def _note(self, order: Order, done: Call) -> None:
        self.tally[f"status {done.status}"] += 1
        self.said.append(f"{order.nonce} status {done.status}: {done.err.strip()} | {done.out}")

    def _anew(self, order: Order) -> None:
        order.key = None if order.nonce not in order.keys else f"{order.nonce}-{len(order.keys)}"

    def failed(self, order: Order, reason: str) -> None:
        """What the batch system, or the library, gave up is ordered anew if it never started."""
        self.tally["ended without a start"] += 1
        self.said.append(f"{order.nonce} failed as {order.key}: {reason}")
        if "never started" not in reason:
            raise AssertionError(self.said[-1])
        self._anew(order)

    # --- following --------------------------------------------------------------------------------

    def look(self, forks: Forks, chance: random.Random, *, kills: float) -> list[Order]:
        """Asks how all jobs are, and does what is to be done; the orders to hand over again."""
        begun = time.monotonic()
        with self.calling():
            done = self.call(forks, ["jobs", "--all", "--most", "100000", "--json"], kills=kills)
        if done.killed or done.status not in (0, 1) or not done.out.strip():
            if done.status == 2:
                self.said.append(f"jobs: {done.err.strip()}")
            return []
        rows = {row["key"]: row for row in json.loads(done.out)}
        paused, over, again = [], [], []
        for order in self.orders.values():
            if order.taken is None or order.ended or order.since > begun:
                continue
            assert order.key is not None
            row = rows.get(order.key)
            order.state = "" if row is None else row["state"]
            if order.state == "acknowledged":
                order.ended = True
            elif order.state == "done":
                over.append(order)
            elif order.state == "paused":
                paused.append(order.key)
            elif order.state in {"failed", "lost", "cancelled"}:
                assert row is not None
                self.failed(order, f"{order.state}: {row['reason']}")
                again.append(order)
            elif row is None:
                self.tally["not on record"] += 1
                again.append(order)
        for command, keys in (
            ("resume", paused),
            ("acknowledge", [order.key for order in over if chance.random() < 0.5]),
        ):
            if keys:
                self.tally[command] += len(keys)
                with self.calling():
                    said = self.call(forks, [command, *keys], kills=kills)
                if said.status not in (0, -signal.SIGKILL):
                    self.said.append(f"{command} {said.status}: {said.err.strip()}")
        for order in over:
            order.ended = True
        return again


def _job(order: Order) -> str:
    """The description of an order in a file of several."""
    words = ", ".join(json.dumps(text, ensure_ascii=False) for text in order.arguments)
    return (
        f'[ Key = "{order.key}"; Executable = "{order.nonce}.sh"; Arguments = {{ {words} }};'
        f' Environment = {{ "FROM_AD={order.nonce}" }};'
        " Requirements = other.Wall >= 60; Rank = other.Free ]"
    )


# --- the process that makes the calls -------------------------------------------------------------


@attrs.define
class Forks:
    """The process that makes calls, one at a time."""

    process: subprocess.Popen[str]

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Iterator[Forks]:
        root = Path(__file__).parents[2]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.portal"], cwd=root, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        with process:
            yield cls(process)
            assert process.stdin is not None
            process.stdin.close()

    def run(
        self, made: Call, argv: Sequence[str] | None, order: Mapping[str, Any] | None,
        kill_after: float | None,
    ) -> int:  # fmt: skip
        """The exit status of a call, below 0 for a signal."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        wanted = {
            "directory": str(made.directory), "environment": dict(made.environment),
            "umask": made.umask, "argv": argv, "order": order, "after": kill_after,
        }  # fmt: skip
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


def _in_child(wanted: Mapping[str, Any]) -> int:
    os.chdir(wanted["directory"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    os.umask(wanted["umask"])
    for name, number in ((".out", 1), (".err", 2)):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666), number)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - until the process ends
    sys.stdout, sys.stderr = (os.fdopen(n, "w", encoding="utf-8") for n in (1, 2))
    if wanted["argv"] is not None:
        from matchmaker.cli import main

        sys.argv = ["classad", *wanted["argv"]]
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0
    return _by_program(wanted["order"])


def _by_program(order: Mapping[str, Any]) -> int:
    """Hands an order over as a program does, and says what came of it as the command would."""
    from matchmaker import ClassAd
    from matchmaker import delegation as d

    settings = {name: os.environ[name] for name in LEDGER}
    given = (each.partition("=") for each in settings["CLASSAD_DEADLINES"].split(","))
    times = d.Deadlines(**{name: float(text) for name, _, text in given})  # type: ignore[arg-type]
    key = order["key"]
    if key is None:
        # A program that chooses keys writes them down first.
        key = f"py{os.getpid()}-{time.time_ns():x}"
        sys.stderr.write(f"key {key}\n")
        sys.stderr.flush()
    try:
        ledger = d.Ledger(settings["CLASSAD_LEDGER"])
        by = d.Delegator(ledger, "slurm", settings["CLASSAD_SPOOL"], deadlines=times)
        call = d.Invocation(
            arguments=tuple(order["arguments"]), exports=(("FROM_AD", order["nonce"]),)
        )
        made = by.submit(
            ClassAd(), order["script"],
            ["--output=/dev/null"], key=key, invocation=call,
        )  # fmt: skip
        sys.stderr.write(f"key {made.key}\n")
        sys.stdout.write(f"{made.state}: {made.reason}\n")
    except d.UnfinishedError as error:
        sys.stderr.write(f"key {error.key}\n{error}\n")
        return 2
    except ValueError as error:
        # The key that was chosen above is good for the next try too, unless it is taken.
        sys.stderr.write(f"{error}\n")
        return 2
    return 1 if str(made.state) in {"failed", "lost", "cancelled"} else 0


def main() -> None:
    """Reads calls from standard input, and prints how each ended."""
    from matchmaker import cli
    from matchmaker.cli.commands import broker as broker_
    from matchmaker.cli.commands import jobs as jobs_
    from matchmaker.delegation import Delegator, Ledger

    assert all((Delegator, Ledger, cli.main, broker_, jobs_)), "loaded once for all calls"
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 70
            try:
                status = _in_child(wanted)
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:  # noqa: BLE001 - said, and seen by the test
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(status)
        if wanted["after"] is not None:
            time.sleep(wanted["after"])
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, ended = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(ended)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
