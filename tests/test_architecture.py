"""The shape of the project: which part may import which, and what no file may hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGE = "matchmaker"
MODULES = sorted((SOURCE / PACKAGE).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# Each part (a folder or a module right under the package) and the parts that it may import.
# The package itself is called by its own name: only the top may import from it, since a part
# that did so would import everything.
ALLOWED: dict[str, set[str]] = {
    "_cache": {"_locks"},
    "_data": set(),
    "_diagnostics": set(),
    "_files": set(),
    "_limits": set(),
    "_locks": set(),
    "_stack": {"_locks"},
    "classad": set(),
    "matching": {"classad"},
    "reduction": {"classad"},
    "linting": {"reduction", "classad"},
    "glue": {"classad"},
    "batch": {"reduction", "classad"},
    "delegation": {"batch", "classad"},
    "pilots": {"delegation", "broker", "glue", "batch", "matching", "linting", "classad"},
    "broker": {"batch", "nodes", "reduction", "matching", "glue", "classad"},
    "nodes": {"matching", "classad"},
    "shards": {"matching", "classad"},
    "testing": {
        "pilots",
        "broker",
        "nodes",
        "batch",
        "glue",
        "linting",
        "reduction",
        "matching",
        "classad",
    },
}
# Everybody's business: bounded caches, the grammar and the schemas, the record of a fault in an
# input, files that are replaced as a whole, the limits, locks that a fork leaves free, room on the
# stack of Python.
SHARED = {"_cache", "_data", "_diagnostics", "_files", "_limits", "_locks", "_stack"}
# The top may import everything.
TOP = {PACKAGE, "cli", "__main__"}

MAX_LINES = 1000

# Import of the library must stay light: these belong to one subcommand, to large pools, to tests.
HEAVY = {
    "click", "dask", "distributed", "hypothesis", "lark", "ldap3", "numpy", "obstore", "paramiko",
    "prometheus_client",
    "prompt_toolkit", "psycopg", "pyarrow",
    "regex", "requests", "rich", "sqlalchemy",
}  # fmt: skip


def module_name(path: Path, source: Path = SOURCE) -> str:
    """The dotted name of a file below the source folder; a package's is its folder's."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """The part that a dotted name belongs to; the package itself for the package's own names."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else PACKAGE


def imported(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every import of ours in a module, at any depth, as a line number and a dotted name.

    Imports in functions, under ``TYPE_CHECKING``, and by name through ``import_module`` count like
    any other.
    """
    here = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # From the package itself come parts and, at the top, names that it gathers.
            names = [
                f"{PACKAGE}.{alias.name}" if base == PACKAGE and is_part(alias.name) else base
                for alias in node.names
            ]
        elif node.args:
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else None
            called = function.id if isinstance(function, ast.Name) else called
            argument = node.args[0]
            if (
                called in {"import_module", "__import__"}
                and isinstance(argument, ast.Constant)
                and isinstance(argument.value, str)
            ):
                names = [argument.value]
        for name in names:
            if name == PACKAGE or name.startswith(f"{PACKAGE}."):
                yield node.lineno, name


def is_part(name: str) -> bool:
    """Whether a name right under the package is a part rather than something it gathers."""
    return name in ALLOWED or name in TOP or name in SHARED


def violations(text: str, module: str, *, is_package: bool = False) -> list[str]:
    """The imports in a module that do not point down."""
    part = part_of(module)
    if part in TOP:
        return []
    if part not in ALLOWED:
        return [f"{module}: {part!r} has no place in the table of parts in {Path(__file__).name}"]
    down = ALLOWED[part] | SHARED | {part}
    return [
        f"{module}:{line}: {part} may not import {name}"
        for line, name in imported(ast.parse(text), module, is_package=is_package)
        if part_of(name) not in down
    ]


def test_modules_are_found() -> None:
    assert module_name(SOURCE / PACKAGE / "__init__.py") in map(module_name, MODULES)


def test_imports_point_down() -> None:
    assert [
        wrong
        for path in MODULES
        for wrong in violations(
            path.read_text(encoding="utf-8"),
            module_name(path),
            is_package=path.name == "__init__.py",
        )
    ] == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("matchmaker.classad.values", "import matchmaker.matching.pool"),
        ("matchmaker.classad.values", "from matchmaker import broker"),
        ("matchmaker.classad.values", "from matchmaker import parse_ad"),
        ("matchmaker.classad.values", "from .. import glue"),
        ("matchmaker.classad.values", "from ..glue import schema"),
        ("matchmaker.classad.values", "from ..glue.schema import Schema"),
        ("matchmaker.reduction.sets", "def f():\n    from matchmaker.glue import scope"),
        ("matchmaker.reduction.sets", "if TYPE_CHECKING:\n    from matchmaker.batch import flags"),
        ("matchmaker.matching.pool", "importlib.import_module('matchmaker.nodes')"),
        ("matchmaker.batch.slurm", "__import__('matchmaker.matching')"),
        ("matchmaker.broker", "from . import testing"),
        ("matchmaker.nodes", "import matchmaker.broker, json"),
        ("matchmaker._data", "from matchmaker.classad import values"),
        ("matchmaker.elsewhere", ""),
    ],
)
def test_import_that_points_up_is_found(module: str, text: str) -> None:
    assert violations(text, module) != []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("matchmaker.classad.values", "from . import operators\nfrom .nodes import Node"),
        ("matchmaker.classad.values", "import json, lark\nfrom matchmaker._data import grammar"),
        ("matchmaker.matching.pool", "from matchmaker.classad.values import UNDEFINED"),
        ("matchmaker.batch.slurm", "from ..reduction import Reduction"),
        ("matchmaker.broker", "from . import matching, glue\nfrom ._data import schemas"),
        ("matchmaker.cli.main", "import matchmaker as mm\nfrom matchmaker import broker"),
        ("matchmaker", "from . import broker, nodes"),
    ],
)
def test_import_that_points_down_is_allowed(module: str, text: str) -> None:
    assert violations(text, module) == []


def test_relative_imports_in_a_package_start_at_the_package() -> None:
    text = "from . import values\nfrom .values import ERROR"
    assert violations(text, "matchmaker.classad", is_package=True) == []
    assert violations("from .. import glue", "matchmaker.classad", is_package=True) != []


def test_each_module_is_short_and_says_what_it_is() -> None:
    texts = {module_name(path): path.read_text(encoding="utf-8") for path in MODULES}
    assert [name for name, text in texts.items() if len(text.splitlines()) > MAX_LINES] == []
    assert [name for name, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []


def dependencies(texts: dict[str, str], packages: set[str]) -> dict[str, set[str]]:
    """Which of some modules each of them imports: deferred imports and those for types too.

    ``from package import name`` is an import of the module of that name, or where there is none of
    the package's own ``__init__``. That a package's ``__init__`` runs before its modules do is no
    import: it gathers what they define, and they know nothing of it.
    """
    found: dict[str, set[str]] = {}
    for module, text in texts.items():
        tree = ast.parse(text)
        names = {name for _, name in imported(tree, module, is_package=module in packages)}
        here = module.split(".") if module in packages else module.split(".")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                above = here[: len(here) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                inner = {f"{base}.{alias.name}" for alias in node.names}
                names |= inner & texts.keys()
                if base in packages and inner <= texts.keys():
                    names.discard(base)
        found[module] = (names & texts.keys()) - {module}
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The groups of modules in which each leads to every other (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            place = stack.index(module)
            group = set(stack[place:])
            del stack[place:]
            if len(group) > 1:
                found.append(group)

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def test_no_imports_go_in_a_circle() -> None:
    texts = {module_name(path): path.read_text(encoding="utf-8") for path in MODULES}
    packages = {module_name(path) for path in MODULES if path.name == "__init__.py"}
    graph = dependencies(texts, packages)
    assert [
        f"{module} -> {', '.join(sorted(graph[module] & group))}"
        for group in circles(graph)
        for module in sorted(group)
    ] == []


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ({"p.a": "import p.b", "p.b": "import p.c", "p.c": ""}, 0),
        ({"p.a": "import p.b", "p.b": "def f():\n    from p import a"}, 1),
        ({"p.a": "from .b import x", "p.b": "if TYPE_CHECKING:\n    from p.a import y"}, 1),
        ({"p": "from p.a import x", "p.a": "from p import b", "p.b": ""}, 0),
        ({"p": "from p.a import x", "p.a": "from p import x"}, 1),
        ({"p": "from p.a import x", "p.a": "from . import x, b", "p.b": ""}, 1),
        ({"p.a": "import p.b", "p.b": "import p.a, p.c", "p.c": "import p.d", "p.d": "import p.c"},
         2),
    ],
)  # fmt: skip
def test_circles_are_found(texts: dict[str, str], count: int) -> None:
    named = {
        name.replace("p", PACKAGE, 1): text.replace("p.", f"{PACKAGE}.").replace(
            "from p ", f"from {PACKAGE} "
        )
        for name, text in texts.items()
    }
    assert len(circles(dependencies(named, {PACKAGE} & named.keys()))) == count


def test_import_of_the_library_is_light() -> None:
    rooms = {f"{PACKAGE}.{room}" for room in ("batch", "glue", "linting", "reduction")}
    code = f"import sys, {PACKAGE}; print(*({HEAVY | rooms!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


# What would tie the files to one machine or to one package index. Written so that this file does
# not hold what it forbids.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.-])/(?:work|root|opt/pypi|opt/wheels)/"),
    "the address of a package index": re.compile(
        r"pypi\.org/(?:simple|pypi)|files\.pythonhosted\.|(?:deb|security)\.debian\.", re.IGNORECASE
    ),
    "a choice of package index": re.compile(r"(?<!\w)--(?:extra-)?index[-]url|--trusted[-]host"),
}


def project_files(root: Path = ROOT) -> list[Path]:
    """The files that belong to the project: by git, or in an unpacked source distribution all."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        files = [root / name for name in listing.stdout.split("\0") if name]
    else:
        generated = {"__pycache__", "build", "dist"}
        files = [
            path
            for path in root.rglob("*")
            if not any(
                part in generated or part.startswith(".") for part in path.relative_to(root).parts
            )
        ]
    return [path for path in files if path.is_file()]


def faults(text: str) -> list[str]:
    """What a text holds that no project file may."""
    return [
        f"{line}: {fault}: {found.group()}"
        for line, words in enumerate(text.splitlines(), start=1)
        for fault, pattern in FORBIDDEN.items()
        if (found := pattern.search(words))
    ]


def test_no_file_is_tied_to_a_machine_or_an_index() -> None:
    files = project_files()
    assert ROOT / "pyproject.toml" in files
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in files
        if (wrong := faults(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize("word", ["work/main", "root/x.ad", "opt/wheels/x"])
def test_machine_path_is_found(word: str) -> None:
    assert faults(f"see '/{word}'") != []
    assert faults(f"https://example.org/{word}") == []


# What can fail: by itself, or as state machines of Hypothesis and fuzz targets do.
CHECKING = {"assert", "raise", "raises", "warns", "run_state_machine_as_test", "TARGETS"}


def idle_tests(texts: Iterable[str]) -> set[str]:
    """The tests that check nothing, neither themselves nor through a function of the tests."""
    words: dict[str, set[str]] = {}
    for text in texts:
        for part in re.split(r"^(?=async def |def |class |@)", text, flags=re.MULTILINE):
            for name in re.findall(r"^ *(?:async )?(?:def|class) (\w+)", part, re.MULTILINE):
                words.setdefault(name, set()).update(re.findall(r"\w+", part))
    checking, found = CHECKING, CHECKING
    while found:
        found = {name for name in words.keys() - checking if words[name] & checking}
        checking = checking | found
    return {name for name in words.keys() - checking if name.startswith("test_")}


def test_every_test_can_fail() -> None:
    assert idle_tests(path.read_text("utf-8") for path in TESTS) == set()


def test_a_test_that_checks_nothing_is_found() -> None:
    helpers = "def f(x):\n    assert x\ndef g():\n    pass\n"
    assert idle_tests([helpers, "def test_a():\n    f(1)\ndef test_b():\n    g()\n"]) == {"test_b"}
