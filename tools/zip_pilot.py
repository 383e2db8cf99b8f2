"""Builds the pilot as one file for worker nodes that have Python and nothing else.

``python tools/zip_pilot.py FILE``, or ``make pilot``. The file holds this package and the pure
Python of what ``classad pilot`` needs; it is run as ``python3 pilot.pyz --binder …``. Nothing in it
is compiled: patterns (``regexp``) in ads need the library ``regex`` on the node, and are ERROR
without it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipapp
from importlib.metadata import distribution
from pathlib import Path

NEEDED = ("attrs", "click", "rich", "pygments", "markdown-it-py", "mdurl")
MAIN = """\
import sys
sys.argv.insert(1, "pilot")
from matchmaker.cli import main
main()
"""


def build(file: Path) -> None:
    """Writes the application."""
    package = Path(__file__).resolve().parents[1] / "src" / "matchmaker"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(
            package, folder / "matchmaker", ignore=shutil.ignore_patterns("__pycache__")
        )
        for needed in NEEDED:
            for part in distribution(needed).files or ():
                if part.suffix == ".py" and ".." not in part.parts:
                    target = folder / part
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(str(part.locate()), target)
        (folder / "__main__.py").write_text(MAIN)
        file.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(folder, file, "/usr/bin/env python3", compressed=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
