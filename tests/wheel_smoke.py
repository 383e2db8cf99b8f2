"""Try an installed wheel outside the checkout: ``wheel_smoke.py CHECKOUT DIST COMMAND…``.

DIST is the folder with the wheel and the source distribution. Run by ``make wheel-test`` with the
Python of a fresh environment, in a folder that holds a copy of the examples and nothing else of the
project.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

DISTRIBUTION = "classad-matchmaker"
DATA_FOLDERS = ("grammars", "schemas")


def check(what: str, good: object) -> None:
    """Print a line for a check and end the run where it fails."""
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        sys.exit(1)


def data_files(checkout: Path) -> set[str]:
    """The data files of the checkout, relative to it."""
    return {
        path.relative_to(checkout).as_posix()
        for folder in DATA_FOLDERS
        for path in (checkout / folder).rglob("*")
        if path.is_file()
    }


def check_contents(checkout: Path, wheel: Path) -> None:
    """The wheel holds the package, the grammar and every schema, unchanged, and no tests."""
    expected = data_files(checkout)
    for folder in DATA_FOLDERS:
        check(f"the checkout has {folder}", any(name.startswith(folder) for name in expected))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        missing = sorted(name for name in expected if f"matchmaker/{name}" not in names)
        check(f"the wheel holds {len(expected)} data files; missing: {missing}", not missing)
        same = all(
            archive.read(f"matchmaker/{name}") == (checkout / name).read_bytes()
            for name in expected
        )
        check("the data files are unchanged", same)
    check("the wheel is typed", "matchmaker/py.typed" in names)
    tops = {name.split("/")[0] for name in names}
    check(
        f"the wheel holds nothing else: {sorted(tops)}",
        all(top == "matchmaker" or top.endswith(".dist-info") for top in tops),
    )


def check_source(sdist: Path) -> None:
    """The source distribution holds what a packager builds and tests with."""
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    wanted = {*DATA_FOLDERS, "src", "tests", "examples", "LICENSE", "README.md", "constraints.txt"}
    check(f"the source distribution is whole; missing: {sorted(wanted - tops)}", wanted <= tops)


def check_library(checkout: Path) -> None:
    """The library comes from the environment, and parses and evaluates."""
    import matchmaker as mm

    place = Path(mm.__file__ or "").resolve()
    check("the library is not the checkout's", not place.is_relative_to(checkout.resolve()))
    check("the library is this environment's", place.is_relative_to(Path(sys.prefix).resolve()))
    ad = mm.parse_ad("[ Cpus = 4; Memory = Cpus * 2048 ]")
    check("an ad parses and evaluates", ad.eval("Memory") == 8192)


def check_command(argv: list[str]) -> None:
    """The command says its version and runs the demonstration."""
    program = Path(sys.prefix) / "bin" / "classad"
    # As on a machine with nothing but the wheel.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False, env=environment
    )
    check(
        f"classad --version says {said.stdout.strip()!r}",
        said.returncode == 0 and version(DISTRIBUTION) in said.stdout,
    )
    demo = subprocess.run(
        [program, *argv], capture_output=True, text=True, check=False, env=environment
    )
    print(demo.stdout, demo.stderr, sep="")
    check("the demonstration ends well", demo.returncode == 0)
    check("the demonstration says something", demo.stdout.strip())


def main() -> None:
    """Run every check."""
    checkout, dist, *argv = sys.argv[1:]
    (wheel,) = Path(dist).glob("*.whl")
    (sdist,) = Path(dist).glob("*.tar.gz")
    check_contents(Path(checkout), wheel)
    check_source(sdist)
    check_library(Path(checkout))
    check_command(argv)


if __name__ == "__main__":
    main()
