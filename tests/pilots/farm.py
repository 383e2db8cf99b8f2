"""Many pilots in one process: ``python -m tests.pilots.farm ADDRESS FOLDER COUNT TOKEN…``.

Their node has a handler and a program. The process ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from matchmaker.classad import ClassAd
from matchmaker.pilots.node.pilot import PilotAgent
from matchmaker.pilots.node.slots import NodeResources, NodeState
from matchmaker.pilots.node.works import PilotSettings
from matchmaker.pilots.wire.connect import BinderAddress
from matchmaker.pilots.wire.connection import PairStream

CPUS = 4


async def echo(stream: PairStream, ad: ClassAd) -> None:
    """Sends its name before anything was asked, then what comes."""
    await stream.write(f"{ad.eval('Name')}:".encode())
    while part := await stream.read():
        await stream.write(part)
    await stream.end()


async def run(address: str, folder: Path, tokens: list[str]) -> None:
    """Runs a pilot for each token."""
    stop = asyncio.Event()
    program = 'printf %s: "$0"; exec cat'
    pilots = [
        PilotAgent(
            PilotSettings(
                place=BinderAddress(address=address, token=token),
                directory=folder / f"work{number}",
                node=NodeState(total=NodeResources(cpus=CPUS, memory=4000), most=CPUS),
                machine=ClassAd(Machine=f"node{number}", Applications=["echo", "program"]),
                applications={
                    "echo": ("handler:tests.pilots.farm:echo",),
                    "program": ("/bin/sh", "-c", program),
                },
            ),
            print,
        )
        for number, token in enumerate(tokens)
    ]  # fmt: skip
    living = [asyncio.create_task(each.live(stop)) for each in pilots]
    await asyncio.to_thread(sys.stdin.read)
    stop.set()
    await asyncio.gather(*living)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
