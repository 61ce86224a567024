"""Tests mirror the package: each folder is tested by the test folder or file of the same name.

Test folders that concern the whole package are listed here.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS = ROOT / "functrans", ROOT / "tests"

ACROSS = {
    "architecture",  # what holds of the source itself
    "benchmarks",
    "composition",  # transforms of transforms
    "errors",  # the words of messages
    "examples",
    "fuzz",
    "gpu_hour",  # what is asked of a GPU in the first hour that there is one
    "primitives",  # generated from the registry
    "properties",  # programs drawn at random
    "surface",  # what of NumPy's and SciPy's functions works
}


def folders(root):
    """The folders with Python in them, of the first two levels, by their names below the root."""
    found = (path for pattern in ("*", "*/*") for path in root.glob(pattern) if path.is_dir())
    return sorted(path.relative_to(root).as_posix() for path in found if any(path.rglob("*.py")))


def has_tests(name, tests):
    """Whether a folder of the package has tests: a folder of its name, or a file."""
    folder = tests / name
    return any(folder.rglob("test_*.py")) or (folder.parent / f"test_{folder.name}.py").exists()


@pytest.mark.parametrize("name", folders(PACKAGE))
def test_a_folder_of_the_package_has_tests(name):
    assert has_tests(name, TESTS), f"neither tests/{name}/ nor tests/{name} as a file has tests"


@pytest.mark.parametrize("name", folders(TESTS))
def test_a_folder_of_tests_is_one_of_the_package_or_cuts_across(name):
    known = (PACKAGE / name).is_dir() or name.split("/")[0] in ACROSS
    assert known, f"tests/{name} mirrors no folder: move it, or say in ACROSS what it is about"


def test_the_mirror_itself(tmp_path):
    (tmp_path / "one" / "deep").mkdir(parents=True)
    (tmp_path / "one" / "deep" / "test_it.py").touch()
    (tmp_path / "one" / "test_flat.py").touch()
    (tmp_path / "empty").mkdir()
    assert folders(tmp_path) == ["one", "one/deep"]
    assert [name for name in ("one", "one/deep", "one/flat") if has_tests(name, tmp_path)] == [
        "one", "one/deep", "one/flat",
    ]  # fmt: skip
    assert not has_tests("empty", tmp_path)
    assert not has_tests("other", tmp_path)
