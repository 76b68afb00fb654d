"""What is sent to executors: whole packages and single modules of the user's, and nothing that is installed."""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from headrace.spark.shipping import packed, user_modules, wrong_python


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """A package, a namespace package and a module as they are once a user's program has imported them."""
    for path, text in {
        "shipped_app/__init__.py": "",
        "shipped_app/topology.py": "VALUE = 1",
        "shipped_app/not_imported.py": "",
        "shipped_app/schema.json": "{}",
        "shipped_app/.hidden": "",
        "shipped_app/__pycache__/topology.cpython-311.pyc": "",
        "shipped_loose/part.py": "",
        "shipped_helper.py": "VALUE = 2",
        "unrelated.py": "",
    }.items():
        file = tmp_path / "code" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "code")
    names = ("shipped_app", "shipped_app.topology", "shipped_loose", "shipped_loose.part", "shipped_helper")
    for name in names:
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    return {name: sys.modules[name] for name in names}


def test_modules_that_are_installed_stay(users: dict[str, ModuleType]) -> None:
    loaded = {**users, **{name: sys.modules[name] for name in ("json", "pytest", "headrace", "msgspec", "sys")}}
    assert [module.__name__ for module in user_modules(loaded)] == ["shipped_app", "shipped_helper", "shipped_loose"]


def test_an_archive_can_be_imported_from(
    users: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed("application", user_modules(users), tmp_path)
    with zipfile.ZipFile(archive) as content:
        assert sorted(name for name in content.namelist() if not name.endswith("/")) == [
            "shipped_app/__init__.py",
            "shipped_app/not_imported.py",
            "shipped_app/schema.json",
            "shipped_app/topology.py",
            "shipped_helper.py",
            "shipped_loose/part.py",
        ]
    for name in users:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(archive), *(path for path in sys.path if path != str(tmp_path / "code"))])
    for name in users:
        found = importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, found)
        assert str(archive) in json.dumps([*map(str, getattr(found, "__path__", ())), str(found.__file__)])


def test_an_archive_with_other_content_has_another_name(users: dict[str, ModuleType], tmp_path: Path) -> None:
    modules = user_modules(users)
    first = packed("application", modules, tmp_path)
    assert packed("application", modules, tmp_path) == first
    Path(str(users["shipped_helper"].__file__)).write_text("VALUE = 3")
    assert packed("application", modules, tmp_path) != first


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "Python in worker has different version: 3.9 than that in driver: 3.11",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory\n\tat',
            'Cannot run program "/opt/python": error=2, No such file or directory',
        ),
        ("ModuleNotFoundError: No module named 'pyspark'\n", "No module named 'pyspark'"),
        ("ValueError: something else", None),
    ],
)
def test_what_is_wrong_with_the_executors_python(error: str, reason: str | None) -> None:
    assert wrong_python(error) == reason
