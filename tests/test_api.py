"""``docs/api.md`` lists every public name with its arguments or members: those that there are."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from enum import Enum
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import attrs
import pytest

import matchmaker as mm

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "api.md").read_text(encoding="utf-8")


@attrs.frozen(slots=True)
class Row:
    """A name as the page has it."""

    name: str
    arguments: tuple[str, ...] | None
    says: str
    members: tuple[str, ...]
    link: str


def rows() -> list[Row]:
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        head = re.fullmatch(r"`(\w+)(?:\((.*)\))?`", cells[0])
        if not line.startswith("| `") or head is None:
            continue
        *_, link = cells
        members = re.findall(r"`(\w+)`", cells[2]) if len(cells) == 4 else ()
        arguments = None if head[2] is None else tuple(filter(None, head[2].split(", ")))
        found.append(Row(head[1], arguments, cells[1], tuple(members), link))
    return found


ROWS = rows()


def members(thing: Any) -> set[str]:
    """The public names that a class of ours defines, or that a module has to give."""
    if isinstance(thing, ModuleType):
        own = (
            n
            for n, held in vars(thing).items()
            if getattr(held, "__module__", "") == thing.__name__
        )
        return {name for name in getattr(thing, "__all__", own) if not name.startswith("_")}
    if not inspect.isclass(thing):
        return set()
    if issubclass(thing, Enum):
        return set(thing.__members__)
    ours = [base for base in thing.__mro__ if base.__module__.partition(".")[0] == "matchmaker"]
    found = {name for base in ours for name in vars(base)}
    if issubclass(thing, Exception) and "__init__" in found:
        found |= set(inspect.signature(thing).parameters)
    return {name for name in found if not name.startswith("_")}


def test_dir_shows_what_there_is() -> None:
    assert dir(mm) == sorted([*mm.__all__, "__version__"])
    assert all(hasattr(mm, name) for name in dir(mm))


def test_every_name_is_there_once() -> None:
    assert sorted(row.name for row in ROWS) == sorted(mm.__all__)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_name_is_as_the_page_says(row: Row) -> None:
    thing = getattr(mm, row.name)
    assert row.says
    if inspect.isfunction(thing):
        assert row.arguments == tuple(inspect.signature(thing).parameters)
    else:
        assert row.arguments is None
        assert sorted(row.members) == sorted(members(thing))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_name_is_explained_where_the_page_says(row: Row) -> None:
    link = re.fullmatch(r"\[[^]]+\]\((\w+\.md)#([\w-]+)\)", row.link)
    assert link is not None
    text = (DOCS / link[1]).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert link[2] in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


# --- that every function and method has an example ------------------------------------------------


NEED_A_SERVER = {"glue.read_ldap", "batch.describe"}
NEED_MUCH = ("delegation.", "shards.", "Shards.")
"""What a batch system or several processes are needed for; their pages have examples."""


def called_by_examples() -> set[CodeType]:
    """The code of all functions and methods that the examples of the page call themselves."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        above = frame.f_back
        caller = "" if above is None else above.f_code.co_filename
        if event == "call" and caller.startswith("<doctest api.md"):
            found.add(frame.f_code)

    plain = re.sub(r"^```.*$", "", PAGE, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(plain, {}, "api.md", "api.md", 0)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        doctest.DocTestRunner(optionflags=options).run(test, out=lambda text: None)
    finally:
        sys.setprofile(before)
    return found


def callables(things: dict[str, Any]) -> dict[str, CodeType]:
    """The functions among some things, and the methods and computed attributes of the classes."""
    found: dict[str, CodeType] = {}
    for name, thing in things.items():
        if isinstance(thing, ModuleType):
            found |= callables({f"{name}.{n}": getattr(thing, n) for n in members(thing)})
            continue
        held = {n: inspect.getattr_static(thing, n, None) for n in members(thing)}
        for inside, one in {"": thing, **held}.items():
            plain = getattr(one, "__func__", None) or getattr(one, "fget", None) or one
            if isinstance(plain, FunctionType):
                found[f"{name}.{inside}".rstrip(".")] = plain.__code__
    return found


def test_every_function_and_method_has_an_example_that_runs() -> None:
    wanted = callables({name: getattr(mm, name) for name in mm.__all__})
    called = called_by_examples()
    assert len(wanted) > 90
    missing = {name for name, code in wanted.items() if code not in called}
    assert {name for name in missing if not name.startswith(NEED_MUCH)} == NEED_A_SERVER


# --- meanings -----------------------------------------------------------------------------


def test_a_public_noun_has_one_meaning() -> None:
    meant: dict[str, set[type]] = {}
    for module in (mm, mm.batch, mm.broker, mm.delegation, mm.glue, mm.nodes, mm.pilots):
        for name in {*members(module), *getattr(module, "__all__", ())}:
            if isinstance(found := getattr(module, name), type):
                meant.setdefault(name, set()).add(found)
    assert {"Policy", "PolicyAd", "Transition"} <= meant.keys()
    assert {name: found for name, found in meant.items() if len(found) > 1} == {}
