"""Draws the pictures of ``docs/why.md`` again: the page of a job on a desk and on a phone.

A frame gives the page its width, since a browser's window is not as narrow as a phone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAIN = "from matchmaker.cli import main; main()"
COMMAND = ("explain", "examples/queue.ad", "examples/slots.ad", "--job", "12.0")
PICTURES = (("why.png", 1280, 520, "light"), ("why-phone.png", 390, 700, "dark"))
"""Name, width and height in pixels, and colours."""

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--virtual-time-budget=2000", "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND")  # fmt: skip


def main() -> None:
    """Draws both."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        sys.exit("the pictures need chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        page, frame = Path(name, "page.html"), Path(name, "frame.html")
        argv = [sys.executable, "-c", MAIN, *COMMAND, "--html", str(page)]
        subprocess.run(argv, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        text = escape(page.read_text("utf-8"))
        for picture, width, height, scheme in PICTURES:
            style = f"width: {width}px; height: {height}px; border: 0; color-scheme: {scheme}"
            frame.write_text(
                f'<html style="color-scheme: {scheme}"><meta charset="utf-8">'
                f'<body style="margin: 0"><iframe style="{style}"'
                f' srcdoc="{text}"></iframe>',
                "utf-8",
            )
            subprocess.run(
                [program, *_OPTIONS, f"--user-data-dir={name}/profile",
                 f"--window-size={width},{height}", f"--screenshot={ROOT / 'docs' / picture}",
                 frame.as_uri()],
                stderr=subprocess.DEVNULL, timeout=120, check=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
