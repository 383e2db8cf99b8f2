"""Every declared batch system has its row in every table of the tests and the documentation.

A new system is a file in ``batch/systems``, a module in ``batch/description`` or both; what is
missing for it is named here (docs/architecture.md lists the places).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from matchmaker.batch import Mapping, known_lrms, load_mapping
from matchmaker.batch.description import describable
from tests.attack import flags as attack
from tests.batch import test_policy, test_systems
from tests.batch.description import shapes, test_description
from tests.batch.systems import SYSTEMS
from tests.property import test_systems as properties

ROOT = Path(__file__).parents[2]
TABLES = {lrms: load_mapping(lrms) for lrms in known_lrms()}
SUBMITS = [lrms for lrms, table in TABLES.items() if table.style == "flags" and table.submit]
"""Those whose flags are words of a command."""


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def nodes_can_be_chosen(table: Mapping) -> bool:
    """Whether its terms say more than that all of some features are there."""
    terms = table.terms
    return bool(terms.or_ or terms.not_ or table.negate) or table.style == "classad"


@pytest.mark.parametrize("lrms", TABLES)
def test_the_random_attack_judges_its_flags(lrms: str) -> None:
    assert lrms in attack.SYSTEMS
    assert lrms in attack.SELECTS
    assert (lrms in attack.SAFE) == (lrms in SUBMITS)


REAL = {"slurm", "sge", "blah"}
"""Held to the daemon itself in tests/services; BLAH sends the expression as it is."""


def test_the_property_holds_all_that_choose_nodes() -> None:
    wanted = {lrms for lrms, table in TABLES.items() if nodes_can_be_chosen(table)} - REAL
    assert wanted <= set(properties.SYSTEMS)
    assert set(properties.SYSTEMS) <= set(TABLES)


@pytest.mark.parametrize("lrms", TABLES)
def test_its_largest_amounts_and_its_flags_are_expected(lrms: str) -> None:
    numbers = {r.name for r in TABLES[lrms].requests.values() if r.kind == "number"}
    assert set(SYSTEMS[lrms].largest) == numbers
    text = Path(str(test_systems.__file__)).read_text(encoding="utf-8")
    assert SYSTEMS[lrms].flags or f'"{lrms}"' in text or lrms == "blah"


@pytest.mark.parametrize("lrms", TABLES)
def test_where_its_policy_goes_is_expected(lrms: str) -> None:
    table = TABLES[lrms]
    assert (lrms in test_policy.CARRIED) == bool(table.metadata)
    assert (lrms in {known for known, *_ in test_policy.ANSWERS}) == bool(table.query)


@pytest.mark.parametrize("lrms", TABLES)
def test_it_has_an_example_and_is_documented(lrms: str) -> None:
    assert lrms == "blah" or (ROOT / "examples/mappings" / f"{lrms}-site.toml").is_file()
    text = page("batch.md").lower().replace(" ", "")
    assert {"sge": "gridengine"}.get(lrms, lrms) in text


@pytest.mark.parametrize("lrms", describable())
def test_its_description_is_tried_and_documented(lrms: str) -> None:
    assert lrms in shapes.SHAPES
    assert test_description.WRONG.get(lrms), "outputs of something else"
    rows = re.findall(rf"^\| `{lrms}`", page("nodes.md"), re.MULTILINE)
    assert rows, "the commands, in the first table"
