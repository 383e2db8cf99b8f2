"""A real browser without a window: what a page looks like to it, and what the page asked for.

``chromium`` is started for one page, with a profile of its own in a temporary folder, and ends by
itself. It finds no host by name, whatever the page or the browser wants of the network.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import Any

import attrs
import pytest

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 120
_OPTIONS = (
    # The pages are the tests' own, and in a container the sandbox has no rights.
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
# How the log of the network names what the browser itself wants.
_NOBODY = "not an origin"

Colour = tuple[int, int, int]


@attrs.frozen
class Shown:
    """A page as the browser has it: its tree, what it said, what it asked for, and its colours."""

    dom: str
    console: tuple[str, ...]
    requests: tuple[str, ...]
    colours: frozenset[Colour]


def show(page: Path, width: int = 480, height: int = 320) -> Shown:
    """Opens a page. Skips the test where there is no browser."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("no browser here: chromium is not installed")
    with tempfile.TemporaryDirectory(prefix="chromium-") as name:
        folder = Path(name)
        done = subprocess.run(
            [
                program, *_OPTIONS, f"--user-data-dir={folder / 'profile'}", "--dump-dom",
                f"--window-size={width},{height}", f"--screenshot={folder / 'picture.png'}",
                f"--log-net-log={folder / 'net.json'}", page.as_uri(),
            ],
            stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace",
            timeout=_SECONDS, check=True,
        )  # fmt: skip
        events = _events((folder / "net.json").read_text(encoding="utf-8"))
        picture = (folder / "picture.png").read_bytes()
    return Shown(
        done.stdout,
        tuple(line for line in done.stderr.splitlines() if ":CONSOLE" in line),
        tuple(
            event["params"]["url"]
            for event in events
            if event.get("params", {}).get("initiator", _NOBODY) != _NOBODY
            and "url" in event["params"]
        ),
        frozenset(colours(picture)),
    )


def _events(log: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(log)["events"]
    except json.JSONDecodeError:
        # The browser ended before it had closed the list.
        found = json.loads(log.rstrip().rstrip(",") + "]}")["events"]
    return found


def colours(png: bytes) -> set[Colour]:
    """The colours in a PNG picture of eight bits a channel, as browsers make them.

    Raises ValueError for any other picture. (PNG specification, section 9: filtering.)
    """
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("not a PNG picture")
    chunks: dict[bytes, bytes] = {}
    place = 8
    while place < len(png):
        size = int.from_bytes(png[place : place + 4])
        kind = png[place + 4 : place + 8]
        chunks[kind] = chunks.get(kind, b"") + png[place + 8 : place + 8 + size]
        place += 12 + size
    width, height = (int.from_bytes(chunks[b"IHDR"][at : at + 4]) for at in (0, 4))
    depth, kind_of_colour, *_, interlaced = chunks[b"IHDR"][8:13]
    if depth != 8 or kind_of_colour not in (2, 6) or interlaced:
        raise ValueError("a kind of PNG that is not read here")
    step = 3 if kind_of_colour == 2 else 4
    data = zlib.decompress(chunks[b"IDAT"])
    above = bytearray(width * step)
    found: set[Colour] = set()
    for row in range(height):
        start = row * (1 + width * step)
        above = _unfiltered(data[start], data[start + 1 : start + 1 + width * step], above, step)
        found.update(zip(above[0::step], above[1::step], above[2::step], strict=True))
    return found


def _unfiltered(kind: int, line: bytes, above: bytearray, step: int) -> bytearray:
    made = bytearray(line)
    for at in range(len(line)):
        left = made[at - step] if at >= step else 0
        corner = above[at - step] if at >= step else 0
        guess = (0, left, above[at], (left + above[at]) // 2, _paeth(left, above[at], corner))
        made[at] = (line[at] + guess[kind]) & 255
    return made


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(guess - value))
