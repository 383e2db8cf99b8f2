"""Every example that the documents show is run, and must come out as shown.

In Python blocks lines beginning with ``>>>`` are run, in order, one namespace a document. In blocks
marked ``console`` lines beginning with ``$ classad`` are run by a shell in the checkout; below each
stands what it prints, errors too. There, a line ``…`` stands for any number of lines, and ``...``
within a line for any text.
"""

from __future__ import annotations

import doctest
import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import settings

import matchmaker as mm
from matchmaker import parse_expr
from matchmaker.batch import description
from matchmaker.classad.ad import literal
from matchmaker.classad.functions import FUNCTIONS
from tests.oracle.differences import DIFFERENCES

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# --- Python ---------------------------------------------------------------------------------------


def python_failures(text: str, name: str) -> list[str]:
    """What comes out otherwise than a document shows, as reports."""
    # The fence that ends a block would be taken as output.
    plain = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(plain, {}, name, name, 0)
    reports: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=reports.append)
    return reports


@pytest.fixture
def _few_cases() -> Iterator[None]:
    """What a document says of random cases shows in few of them."""
    before = settings.get_current_profile_name()
    parent = settings.get_profile(before)
    settings.register_profile(
        "documents", parent=parent, max_examples=25, derandomize=True, database=None
    )
    settings.load_profile("documents")
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("_few_cases")
@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_python_examples(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = path.read_text(encoding="utf-8")
    assert "".join(python_failures(text, name_of(path))) == ""
    if ">>> " in text:
        assert ">>> import matchmaker as mm" in text


# --- the command ----------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Shown:
    """A command as a document shows it, and what is printed below it."""

    where: str
    command: str
    output: str


def commands(text: str, name: str) -> Iterator[Shown]:
    """The commands in a document's console blocks. A command may go on after a backslash."""
    for block in re.finditer(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        first = text.count("\n", 0, block.start(1)) + 1
        for part in re.finditer(
            r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", block[1], re.MULTILINE
        ):
            line = first + block[1].count("\n", 0, part.start())
            yield Shown(f"{name}:{line}", part["command"], part["output"])


def agrees(shown: str, printed: str) -> bool:
    """Whether a command printed what is shown; spaces at the ends of lines do not count."""
    pattern = ""
    for line in shown.rstrip().split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.rstrip().split("..."))) + r"[ ]*\n"
    return re.fullmatch(pattern, printed.rstrip() + "\n") is not None


@functools.cache
def printed_by(command: str, folder: str) -> str:
    """What a shell in the checkout prints for a command, errors included."""
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the command ``classad`` of the interpreter that runs the tests."""
    place = tmp_path_factory.mktemp("bin")
    script = place / "classad"
    code = "from matchmaker.cli import main; main()"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return str(place)


SHOWN = [
    shown
    for path in DOCUMENTS
    for shown in commands(path.read_text(encoding="utf-8"), name_of(path))
]


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.where)
def test_console_examples(shown: Shown, folder: str) -> None:
    assert shown.command.startswith("classad "), "a console block holds only what is run"
    printed = printed_by(shown.command, folder)
    assert "Traceback" not in printed
    if not agrees(shown.output, printed):
        # Not the same: the two texts side by side say where.
        assert printed == shown.output


# --- that a wrong example is found ----------------------------------------------------------------


def test_wrong_python_example_is_found() -> None:
    text = "```python\n>>> import matchmaker as mm\n>>> mm.parse_expr('1 + 1').eval()\n{}\n```\n"
    assert python_failures(text.format(2), "right") == []
    assert python_failures(text.format(3), "wrong") != []


def test_wrong_console_example_is_found(folder: str) -> None:
    text = "```console\n$ classad eval '1 + 1' \\\n    '1/0'\n2\nerror: {}\n```\n"
    [right] = commands(text.format("integer division by zero"), "right")
    [wrong] = commands(text.format("none"), "wrong")
    printed = printed_by(right.command, folder)
    assert agrees(right.output, printed)
    assert not agrees(wrong.output, printed)


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ("a\nb\nc", True),
        ("a\n…", True),
        ("…\nc", True),
        ("a\n…\nc", True),
        ("a\n…\nb\nc", True),
        ("...\n...b\nc...", True),
        ("a\nc", False),
        ("a", False),
        ("a\n…\nd", False),
        ("…\nb", False),
        ("a...\nc", False),
        ("", False),
    ],
)
def test_what_ellipses_stand_for(shown: str, same: bool) -> None:
    assert agrees(shown, "a\nb\nc\n") is same


@pytest.mark.parametrize(
    ("user", "page"),
    [
        ("a user whose job does not match", "why.md"),
        ("an administrator of a batch system", "slurm.md"),
        ("an author of a broker or a pilot factory", "broker.md"),
        ("an author of policies", "testing.md"),
    ],
)
def test_each_user_finds_a_page_that_is_run(user: str, page: str) -> None:
    [row] = [line for line in text_of("docs/index.md").splitlines() if f"| {user} |" in line]
    assert f"({page})" in row
    text = text_of(f"docs/{page}")
    # What needs a Slurm is run by tests/services/test_slurm_page.py.
    run = [*commands(text, page), *re.findall(r"^>>> |^\$ classad", text, re.MULTILINE)]
    assert len(run) > 5


def test_there_are_examples() -> None:
    assert {shown.where.split(":")[0] for shown in SHOWN} >= {"README.md", "docs/batch.md"}
    assert len(SHOWN) > 10


# --- that the documents are whole -----------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"], ids=name_of
)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(path))
    assert [link for link in links if "://" not in link and not leads_somewhere(path, link)] == []


def leads_somewhere(path: Path, link: str) -> bool:
    """Whether there is the file, and in it the heading, that a link of a document names."""
    name, _, heading = link.partition("#")
    goal = path.parent / name if name else path
    if not heading:
        return goal.exists()
    titles = re.findall(r"^#+ (.*)$", without_code(goal), re.MULTILINE)
    return heading in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def without_code(path: Path) -> str:
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"))


def test_contributing_tells_what_the_makefile_does() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", text_of("Makefile"), re.MULTILINE)) - {"help"}
    working = text_of("CONTRIBUTING.md").partition("## The targets")[2].partition("\n## ")[0]
    assert set(re.findall(r"`make ([a-z-]+)`", working)) == targets
    settings = set(re.findall(r"`([A-Z_]+)=", working))
    assert settings <= set(re.findall(r"^([A-Z_]+) \?=", text_of("Makefile"), re.MULTILINE))


def test_every_document_is_in_the_site() -> None:
    listed = re.findall(r"^ +- .+: (\S+\.md)$", text_of("mkdocs.yml"), re.MULTILINE)
    docs = ROOT / "docs"
    assert sorted(listed) == sorted(p.relative_to(docs).as_posix() for p in docs.rglob("*.md"))


def test_the_overview_lists_the_pages_in_the_order_of_the_site() -> None:
    site = re.findall(r": ([\w-]+\.md)$", text_of("mkdocs.yml"), re.MULTILINE)
    listed = text_of("docs/index.md").partition("## All pages")[2]
    assert ["index.md", *re.findall(r"\]\(([\w-]+\.md)\)", listed)] == site


def test_the_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= 150


def paths_in(text: str) -> list[str]:
    """The paths from the top of the checkout that a text names; NAME stands for a new one."""
    tops = r"(?:src|tests|docs|fuzz|grammars|schemas|examples)"
    named = re.findall(rf"[`\s]({tops}/[\w./-]+|[A-Z]+\.md|mkdocs\.yml)(?=[`\s])", text)
    return [path for path in named if "NAME" not in path]


def test_every_path_in_the_architecture_exists() -> None:
    paths = paths_in(text_of("docs/architecture.md"))
    assert len(set(paths)) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_table_in_the_architecture_is_where_it_says() -> None:
    for step in re.split(r"\n\n|\n\d\. ", text_of("docs/architecture.md")):
        tables = re.findall(r"`(_?[A-Z][A-Z_]{3,})`", step)
        files = [path for path in paths_in(step) if (ROOT / path).is_file()]
        held = "".join(map(text_of, files))
        assert [name for name in tables if not re.search(rf"\b{name}\b", held)] == []


def test_every_public_name_has_an_entry_in_the_reference() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/reference/*.md"))
    shown = re.findall(r"^::: matchmaker\.(\w+)$", pages, re.MULTILINE)
    assert sorted(shown) == sorted({*mm.__all__, "testing"})


def test_what_a_batch_system_is_asked_is_told_to_the_letter() -> None:
    text = (ROOT / "docs/nodes.md").read_text()
    asked = [
        shlex.join(argv)
        for lrms in description.describable()
        for argv in description.commands(lrms)
    ]
    assert [line for line in asked if f"`{line}`" not in text] == []


def test_language_lists_every_function() -> None:
    section = text_of("docs/language.md").partition("## Functions")[2].partition("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`(\w+)\(", table))
    assert named == {function.name for function in FUNCTIONS.values()}


def equations(text: str) -> list[tuple[str, str]]:
    """What the tables of a text say of values: "`7 / 2` is `3`"."""
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    found = re.findall(r"`([^`]+)` is `([^`]+)`", rows)
    return [(one.replace(r"\|", "|"), other.replace(r"\|", "|")) for one, other in found]


@pytest.mark.parametrize(("expression", "result"), equations(text_of("docs/language.md")))
def test_values_in_tables(expression: str, result: str) -> None:
    value, expected = (literal(parse_expr(text).eval()) for text in (expression, result))
    # One object for one value; NaN is one too, and every error.
    assert value is expected


def test_language_has_an_example_of_every_function() -> None:
    section = text_of("docs/language.md").partition("## Functions")[2].partition("\n## ")[0]
    shown = " ".join(expression for expression, _ in equations(section)).lower()
    assert [name for name in FUNCTIONS if f"{name}(" not in shown] == []


def test_every_difference_is_described() -> None:
    listed = re.findall(r"^\| ([^|`]+?) \|", text_of("docs/differences.md"), re.MULTILINE)
    assert {known.name for known in DIFFERENCES} <= set(listed)


def test_performance_shows_what_the_benchmarks_print() -> None:
    def printed(script: str, option: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, str(ROOT / "benchmarks" / script), option],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    lines = printed("run.py", "--quick")
    rows = [line.partition("|")[0].strip() for line in lines if " | " in line]
    reading = printed("reading.py", "--list")
    shown = re.findall(r"^\| ([^|]+?) \|", text_of("docs/performance.md"), re.MULTILINE)
    assert len(rows) > 5
    assert len(reading) > 20
    assert {*rows, *reading} <= set(shown)
