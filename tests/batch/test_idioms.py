"""The seventeen idioms of local submit scripts, each in bash and as a mapping."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from matchmaker import ClassAd, reduce
from matchmaker.batch import flags, load_mapping
from matchmaker.batch.flags.requests import Submitter
from tests.cli.conftest import run_here

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scripts.md"
LRMS = {"#SBATCH": "slurm", "#PBS": "torque", "#$": "sge"}


@attrs.frozen
class Idiom:
    """A script, its mapping, and what some variables give."""

    name: str
    script: str
    mapping: str
    cases: tuple[tuple[str, tuple[str, ...]], ...]

    def printed(self, system: str, given: str, folder: Path) -> list[str]:
        """The lines that the mapping prints for some variables."""
        site = folder / "site.toml"
        site.write_text(self.mapping)
        declared = subprocess.run(
            ["bash", "-c", f"{given}\ndeclare -p"], check=True, capture_output=True, text=True
        )
        made = run_here(
            "blah-local-submit-attributes", "--lrms", system, "--mapping", site, "--strict",
            given=declared.stdout,
        )  # fmt: skip
        assert (made.returncode, made.stderr) == (0, "")
        return made.stdout.splitlines()


def idioms() -> Iterator[Idiom]:
    text = PAGE.read_text(encoding="utf-8")
    for part in re.split(r"^\*\*(?=\d+\. )", text, flags=re.MULTILINE)[1:]:
        script, mapping = (
            re.findall(rf"^```{kind}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)[0]
            for kind in ("sh", "toml")
        )
        cases = re.findall(r"^- (?:`([^`]*)`|nothing) gives (.*)$", part, re.MULTILINE)
        lines = ((given, tuple(re.findall("`([^`]+)`", said))) for given, said in cases)
        yield Idiom(part.partition(".**")[0], script, mapping, tuple(lines))


IDIOMS = list(idioms())


def test_there_are_seventeen() -> None:
    assert [each.name.partition(".")[0] for each in IDIOMS] == [str(n) for n in range(1, 18)]
    assert all(each.cases for each in IDIOMS)


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_a_script_and_its_mapping_print_the_same(tmp_path: Path, idiom: Idiom) -> None:
    system = next(lrms for prefix, lrms in LRMS.items() if prefix in idiom.script)
    for given, lines in idiom.cases:
        printed = subprocess.run(
            ["bash", "-c", f"{given}\n{idiom.script}"], check=True, capture_output=True, text=True
        )
        assert sorted(printed.stdout.splitlines()) == sorted(lines)
        assert sorted(idiom.printed(system, given, tmp_path)) == sorted(lines)


MAPPINGS = re.findall(
    r"^```toml\n(.*?)^```$",
    PAGE.with_name("mappings.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("text", MAPPINGS, ids=lambda text: text.strip().partition("\n")[0])
def test_a_mapping_of_the_page_is_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    load_mapping(tomllib.loads(text).get("lrms", "slurm"), path)


def test_an_accounting_group_is_of_who_submits(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(next(text for text in MAPPINGS if "AccountingGroup" in text))
    given = {"cms": "group_analysis.ada", "dteam": "group_others.ada"}
    for group, named in given.items():
        made = flags(
            reduce(ClassAd(), ClassAd(), lambda name: "host"), "htcondor", path,
            submitter=Submitter("ada", (group,)),
        )  # fmt: skip
        assert made.directives == (f'+AccountingGroup = "{named}"',)
