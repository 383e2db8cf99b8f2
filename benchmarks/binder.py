"""Prints what the binder's parts move in one run: pairs, and bytes beside socat.

``python benchmarks/binder.py [--quick]``. Each pair's slot is taken from the pool and another one
enters, as pilots that are reused do. Bytes go one way through two connections on loopback.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import threading
import time
from statistics import median, quantiles

import matchmaker as mm
from matchmaker.pilots.binder.exchange import pair
from matchmaker.pilots.binder.relay import RelayEnd, join_ends

PILOTS = 10_000
WANTED = 2_000
CHUNK = bytes(256 << 10)


def slot(number: int) -> mm.ClassAd:
    """The ad of a free slot."""
    return mm.parse_ad(
        f'[ Name = "s{number}"; Cpus = {1 + number % 8}; Memory = {1000 * (1 + number % 5)};'
        f' Applications = {{"app{number % 7}", "render"}}; Left = {3600 + number % 50};'
        " Requirements = TARGET.Wall <= MY.Left && TARGET.Cpus <= MY.Cpus ]"
    )


def client(number: int, kinds: int) -> mm.ClassAd:
    """The ad of a client, of the kind that its number gives."""
    kind = number % kinds
    return mm.parse_ad(
        f'[ Application = "app{kind % 7}"; Cpus = {1 + kind % 3}; Wall = {600 + kind};'
        " Requirements = member(MY.Application, TARGET.Applications) && TARGET.Memory >= 2000;"
        " Rank = -TARGET.Cpus ]"
    )


def pairs_a_second(at_once: int, kinds: int, count: int) -> float:
    """How many pairs are made a second, with the change of the pool for each."""
    slots = mm.Pool(map(slot, range(PILOTS)))
    waiting = [client(number, kinds) for number in range(count)]
    begun = time.perf_counter()
    for start in range(0, count, at_once):
        some = {str(n): ad for n, ad in enumerate(waiting[start : start + at_once])}
        for name in pair(slots, some.items()).values():
            ad = slots[name]
            slots.remove(name)
            slots.update(ad)
    return count / (time.perf_counter() - begun)


def arriving(rate: int, kinds: int, count: int) -> tuple[float, float, float]:
    """Pairs a second, and the median and the 99th percentile of the wait for one, in seconds.

    Clients arrive one by one at a rate; each round pairs those that came during the last one.
    """
    slots = mm.Pool(map(slot, range(PILOTS)))
    waiting = [client(number, kinds) for number in range(count)]
    waits: list[float] = []
    begun = time.perf_counter()
    while len(waits) < count:
        done = len(waits)
        due = min(count, int((time.perf_counter() - begun) * rate))
        for name in pair(slots, [(str(n), waiting[n]) for n in range(done, due)]).values():
            ad = slots[name]
            slots.remove(name)
            slots.update(ad)
        now = time.perf_counter() - begun
        waits += [now - number / rate for number in range(done, due)]
    speed = count / (time.perf_counter() - begun)
    return speed, median(waits), quantiles(waits, n=100)[98]


def moved(sink: socket.socket, source: socket.socket, total: int) -> float:
    """Bytes a second from one connection to the other."""

    def send() -> None:
        for _ in range(total // len(CHUNK)):
            source.sendall(CHUNK)
        source.shutdown(socket.SHUT_WR)

    begun = time.perf_counter()
    sender = threading.Thread(target=send)
    sender.start()
    got = 0
    while data := sink.recv(1 << 18):
        got += len(data)
    sender.join()
    assert got == total // len(CHUNK) * len(CHUNK)
    return got / (time.perf_counter() - begun)


def by_proxy(total: int) -> float:
    """Bytes a second through our proxy."""
    ready: list[int] = []
    up = threading.Event()

    async def serve() -> None:
        loop, ends = asyncio.get_running_loop(), asyncio.Queue[RelayEnd]()

        class Arriving(RelayEnd):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                ends.put_nowait(self)

        server = await loop.create_server(Arriving, "127.0.0.1", 0)
        ready.append(server.sockets[0].getsockname()[1])
        up.set()
        one, two = await ends.get(), await ends.get()
        join_ends(one, two)
        await asyncio.gather(one.over, two.over)
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    up.wait()
    source = socket.create_connection(("127.0.0.1", ready[0]))
    sink = socket.create_connection(("127.0.0.1", ready[0]))
    with source, sink:
        speed = moved(sink, source, total)
        sink.shutdown(socket.SHUT_WR)
    thread.join()
    return speed


def by_socat(total: int) -> float:
    """Bytes a second through socat, with buffers as large as ours."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        end = f"TCP:127.0.0.1:{listening.getsockname()[1]}"
        process = subprocess.Popen(["socat", "-b", "262144", end, end])
        one, two = listening.accept()[0], listening.accept()[0]
        with one, two:
            speed = moved(two, one, total)
        process.wait()
    return speed


def main() -> None:
    """Prints both comparisons."""
    quick = "--quick" in sys.argv
    count = 500 if quick else 4000
    print(f"pairs a second with {PILOTS:,} free slots (wanted: {WANTED:,})")
    for at_once, kinds in ((1, 20), (20, 20), (100, 20), (1000, 20), (100, 400), (1000, 400)):
        speed = pairs_a_second(at_once, kinds, count)
        print(f"  {at_once:5} clients a round, {kinds:3} kinds: {speed:8,.0f}")
    print(f"clients that arrive at {WANTED:,} a second")
    for kinds in (1, 20, 100, 400):
        speed, middle, late = arriving(WANTED, kinds, 4 * count)
        print(f"  {kinds:3} kinds: {speed:5,.0f} pairs a second, after {1000 * middle:.0f} ms,"
              f" 99 of 100 within {1000 * late:.0f} ms")  # fmt: skip
    total = (64 if quick else 1024) << 20
    if shutil.which("socat") is None:
        print("socat is not installed: the proxy stands alone")
        print(f"proxied: {by_proxy(total) / 1e6:,.0f} MB/s")
        return
    both = [(by_proxy(total), by_socat(total)) for _ in range(3)]
    ours, theirs = median(one for one, _ in both), median(two for _, two in both)
    print(f"proxied: {ours / 1e6:,.0f} MB/s; socat {theirs / 1e6:,.0f} MB/s: {ours / theirs:.2f}"
          " of it (wanted: at least 0.5)")  # fmt: skip


if __name__ == "__main__":
    main()
