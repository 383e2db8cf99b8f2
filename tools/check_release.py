"""Checks what a release would upload: ``check_release.py DIST``, in a checkout.

DIST holds one wheel and one source distribution. Their versions must be that of the library, of
``CITATION.cff`` and of the first version in ``CHANGELOG.md``. The wheel holds every file of the
package, the grammar and the schemas, unchanged, and nothing else. The source distribution holds
files that git tracks and nothing else. Prints each fault and exits with 1, or prints what would be
uploaded and exits with 0.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Where the folders of the checkout are in the wheel.
PACKAGED = {"src/matchmaker/": "matchmaker/", "grammars/": "matchmaker/grammars/",
            "schemas/": "matchmaker/schemas/"}  # fmt: skip
# Written by the build, not tracked.
BUILT = {"PKG-INFO"}


def tracked() -> set[str]:
    """The files that git tracks, relative to the checkout."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    return set(filter(None, listed.stdout.split("\0")))


def found_in(name: str, pattern: str) -> str:
    """The first group of a pattern in a file of the checkout, or a text that says it is absent."""
    found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else f"no version in {name}"


def wrong_wheel(path: Path, files: set[str]) -> list[str]:
    """What is wrong with the files of the wheel."""
    expected = {
        inside + name.removeprefix(folder): ROOT / name
        for folder, inside in PACKAGED.items()
        for name in files
        if name.startswith(folder)
    }
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        changed = sorted(
            name
            for name in names & expected.keys()
            if archive.read(name) != expected[name].read_bytes()
        )
    return [
        *(f"{path.name}: {name} is missing" for name in sorted(expected.keys() - names)),
        *(f"{path.name}: {name} does not belong there" for name in sorted(names - expected.keys())),
        *(f"{path.name}: {name} is not the file of the checkout" for name in changed),
    ]


def wrong_source(path: Path, files: set[str]) -> list[str]:
    """What is wrong with the files of the source distribution."""
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    return [
        *(f"{path.name}: {name} is not tracked by git" for name in sorted(names - files - BUILT)),
        *(f"{path.name}: {member.name} is no file" for member in members if not member.isfile()),
    ]


def metadata(wheel: Path) -> str:
    """The METADATA file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def main() -> None:
    """Check the folder that the command line names."""
    (wheel,) = Path(sys.argv[1]).glob("*.whl")
    (source,) = Path(sys.argv[1]).glob("*.tar.gz")
    files = tracked()
    version = str(Parser().parsestr(metadata(wheel))["Version"])
    versions = {
        "the library": found_in("src/matchmaker/__init__.py", r'^__version__ = "(.+)"$'),
        "CITATION.cff": found_in("CITATION.cff", r"^version: (.+)$"),
        "CHANGELOG.md": found_in("CHANGELOG.md", r"^## \[(\d[^\]]*)\]"),
        source.name: source.name.removesuffix(".tar.gz").rpartition("-")[2],
    }
    faults = [
        f"{wheel.name} has version {version}, {place} has {other}"
        for place, other in versions.items()
        if other != version
    ]
    faults += wrong_wheel(wheel, files) + wrong_source(source, files)
    if faults:
        sys.exit("\n".join(faults))
    for path in (wheel, source):
        print(f"{path.name}: {path.stat().st_size:,} bytes, version {version}, as the checkout is")
    date = found_in("CHANGELOG.md", rf"^## \[{re.escape(version)}\] - (.+)$")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        print(f"CHANGELOG.md gives {version} no date yet: write it before you upload")


if __name__ == "__main__":
    main()
