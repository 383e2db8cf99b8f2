"""Prints how quickly a binder brings clients and pilots together, and what connections cost.

``python benchmarks/pilots_at_work.py [--quick]``. Binder, pilots and clients are processes of their
own. A thousand slots wait on one process that speaks the protocol as pilots do and answers each
client's byte; a client is timed from its call to the first byte that comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matchmaker.classad import parse_ad
from matchmaker.pilots.binder.admission import load_key
from matchmaker.pilots.wire import connect
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import Connection, PairStream, dial
from matchmaker.pilots.wire.protocol import Frame, FrameKind, Role, Token, TokenScope, sign

APPLICATIONS = 20


def token(folder: str, scope: TokenScope) -> str:
    """A token of the binder in a folder."""
    made = Token(subject=f"bench-{scope}", scope=scope, pool="binder", ends=time.time() + 86_400)
    return sign(load_key(Path(folder) / "key"), made)


def as_many_files() -> None:
    """Lets this process open as many files as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def slot_ad(number: int) -> str:
    """The ad of a free slot."""
    return (
        f"[ Cpus = {1 + number % 8}; Memory = {1000 + number % 977};"
        f' Machine = "node{number}"; Left = {3600 + number};'
        f' Applications = {{"app{number % APPLICATIONS}", "echo"}};'
        " Requirements = TARGET.Wall <= MY.Left ]"
    )


def client_ad(number: int) -> str:
    """The ad of a client, of one of many kinds."""
    return (
        f'[ Application = "app{number % APPLICATIONS}"; Wall = {100 + number % 3000};'
        " Requirements = member(MY.Application, TARGET.Applications) && TARGET.Memory >= 1000;"
        " Rank = -TARGET.Cpus ]"
    )


@contextlib.contextmanager
def binder(folder: Path) -> Iterator[tuple[int, str]]:
    """A binder's process, and its address."""
    words = ("binder", "run", "--folder", str(folder), "--listen", "127.0.0.1:0")
    command = (sys.executable, "-c", "from matchmaker.cli import main; main()", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        try:
            yield started.pid, started.stdout.readline().split()[-1]
        finally:
            started.terminate()


def pilots(address: str, folder: str, count: int, ready: Pipe) -> None:
    """The process with the slots: each answers the bytes of a client, and is offered again."""

    async def slot(session: Frame, number: int, control: Connection) -> None:
        while True:
            connection = await dial(address, session["token"], Role.SLOT)
            connection.send(
                FrameKind.OFFER, session=session["session"], slot=str(number), ad=slot_ad(number)
            )
            paired = await connection.expect(FrameKind.PAIRED)
            said = {"job": paired["job"], "epoch": paired["epoch"]}
            connection.send(FrameKind.ACCEPTED, **said)
            stream = PairStream()
            stream.data_received(connection.hand_over(stream))
            with contextlib.suppress(ConnectionError):
                while part := await stream.read():
                    await stream.write(part)
                await stream.end()
            stream.close()
            control.send(FrameKind.ENDED, **said, result="[ ExitCode = 0 ]")

    async def run() -> None:
        tasks = []
        for number in range(count):
            if number % 100 == 0:
                control = await dial(address, token(folder, TokenScope.PILOT), Role.PILOT)
                control.send(
                    FrameKind.REGISTER, ad="[]", session="", running={}, mixed=True, served=""
                )
                session = await control.expect(FrameKind.REGISTERED)
                tasks.append(asyncio.create_task(drain(control)))
            tasks.append(asyncio.create_task(slot(session, number, control)))
            if number % 50 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(2)
        ready.send("ready")
        await asyncio.gather(*tasks)

    async def drain(control: Connection) -> None:
        while True:
            await control.receive()

    as_many_files()
    asyncio.run(run())


@contextlib.contextmanager
def process(target: Any, *words: object) -> Iterator[tuple[Any, Any]]:
    """A process, and what it says first."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    started = context.Process(target=target, args=(*words, there), daemon=True)
    started.start()
    try:
        yield started, here.recv()
    finally:
        started.kill()
        started.join()


async def first_byte(place: BinderAddress, number: int) -> float:
    """Seconds from a client's call to the first byte of a pilot."""
    ad = parse_ad(client_ad(number))
    begun = time.perf_counter()
    async with connect.paired(place, ad) as stream:
        await stream.write(b"x")
        await stream.read()
        return time.perf_counter() - begun


async def first_bytes(place: BinderAddress, count: int, pause: float) -> list[float]:
    """The same for several clients, one after another, in order of their times."""
    took = []
    for number in range(count):
        took.append(await first_byte(place, number))
        await asyncio.sleep(pause)
    return sorted(took)


def memory(pid: int) -> int:
    """The memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def many(place: BinderAddress, count: int) -> list[Connection]:
    """Connections that stay open."""
    return [await dial(place.address, place.token, Role.CLIENT) for _ in range(count)]


def main() -> None:
    """Prints the figures."""
    quick = "--quick" in sys.argv
    waiting, calls, open_ = (200, 200, 500) if quick else (1000, 2000, 5000)
    as_many_files()
    with TemporaryDirectory() as folder, binder(Path(folder)) as (server, address):
        place = BinderAddress(address=address, token=token(folder, TokenScope.CLIENT))
        with process(pilots, address, folder, waiting):
            took = asyncio.run(first_bytes(place, calls, 0.005))
            shares = [took[int(len(took) * share)] * 1000 for share in (0.5, 0.99, 0.999)]
            print(
                f"connect to first byte, {waiting} slots wait: median {shares[0]:.2f} ms,"
                f" 99 of 100 {shares[1]:.2f} ms, 999 of 1,000 {shares[2]:.2f} ms"
            )
        before = memory(server)

        async def hold() -> int:
            connections = await many(place, open_)
            await asyncio.sleep(0.5)
            found = memory(server)
            for each in connections:
                each.abort("")
            return found

        held = asyncio.run(hold())
        print(
            f"{open_} connections at once: the binder takes {held / 1e6:.0f} MB,"
            f" {(held - before) / open_ / 1e3:.1f} kB each"
        )


if __name__ == "__main__":
    main()
