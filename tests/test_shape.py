"""The shape of the code as ``tools/shape.py`` measures it: names, folders, prose."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _shape() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "tools" / "shape.py"
    spec = importlib.util.spec_from_file_location("shape", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shape = _shape()
SOURCES = shape.sources()


def test_every_class_has_a_name_of_its_own() -> None:
    assert shape.shared_names(SOURCES) == {}


def test_no_folder_is_full() -> None:
    assert shape.full_folders(SOURCES) == {}


@pytest.mark.parametrize("rate", shape.RATES)
def test_docstrings_name_things_and_begin_with_verbs(rate: str) -> None:
    most = shape.RATES[rate][1]
    each = {path: shape.rates({path: text})[rate] for path, text in SOURCES.items()}
    worst = sorted(each, key=each.__getitem__, reverse=True)[:10]
    assert shape.rates(SOURCES)[rate] < most, {path: round(each[path], 1) for path in worst}


def test_faults_are_found() -> None:
    texts = {
        "a.py": '"""What is held, where there is no other."""\nclass Limits: pass\n',
        "b.py": "class Limits:\n    class Inner: pass\nclass _Own: pass\nclass Inner: pass\n",
        "c.py": "class _Own: pass\n",
    }
    assert shape.shared_names(texts) == {"Limits": ["a.py", "b.py"]}
    assert shape.rates(texts)["what-clauses"] == pytest.approx(1000 / 8)
    assert shape.rates(texts)["where-clauses"] == pytest.approx(1000 / 8)
    assert shape.full_folders({f"room/{number}.py": "" for number in range(16)}) == {"room": 16}


def test_a_call_is_followed_from_module_to_module() -> None:
    from matchmaker import parse_expr
    from matchmaker.classad.values import UNDEFINED

    modules, switches = shape.passed(lambda: parse_expr("1 + Memory").eval() is UNDEFINED)
    assert any(name.endswith("/operators.py") for name in modules)
    assert switches > 0
