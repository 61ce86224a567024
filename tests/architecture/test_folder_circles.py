"""No import cycles that involve folders: the contents of each folder have a topological order.

Only imports at import time count, not lazy names or imports for type checkers. Files of one folder
may import each other (as the tracer and its trace do), but a cycle that includes a folder means
that one of its files is in the wrong place.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile

import pytest

from tests.architecture.test_imports import FILES, PACKAGE, ROOT

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}


def imports_at_once(body):
    """The imports of statements that are run when their module is imported."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" not in ast.dump(statement.test):
            yield from imports_at_once([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            yield from imports_at_once(statement.body)


def needed(tree, modules):
    """The modules that have to be imported before one with this syntax tree."""
    for statement in imports_at_once(tree.body):
        if isinstance(statement, ast.ImportFrom):
            names = [f"{statement.module}.{alias.name}" for alias in statement.names]
        else:
            names = [alias.name for alias in statement.names]
        for name in names:
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name:
                yield name


def arrows(trees):
    """For each folder, who of those in it needs whom: ``{folder: {entry: {entry, ...}}}``."""
    found = {}
    for module, tree in trees.items():
        for other in needed(tree, trees):
            pairs = zip(module.split("."), other.split("."), strict=False)
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if shared and other != module:
                folder = found.setdefault(".".join(module.split(".")[:shared]), {})
                folder.setdefault(entry(module, shared), set()).add(entry(other, shared))
    return found


def circle(needs, folders):
    """A circle among entries that has a folder in it, or None."""
    needs = {entry: {*others} for entry, others in needs.items()}
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            needed_by = error.args[1]
            if folders & {*needed_by}:
                return needed_by[::-1]
            needs[needed_by[1]].discard(needed_by[0])
        else:
            return None


def entry(module, depth):
    """Who a module is, or is in, among those so deep in the package."""
    return (*module.split("."), "__init__")[depth]


def folders_in(modules, folder):
    """The names of the folders right inside of one."""
    depth = folder.count(".") + 1
    inside = [m for m in modules if m.startswith(f"{folder}.") and m.count(".") > depth]
    return {entry(module, depth) for module in inside}


@pytest.fixture(scope="module")
def trees():
    return {module: ast.parse(path.read_text("utf-8")) for module, path in MODULES.items()}


def test_folders_form_no_circle(trees):
    for folder, needs in arrows(trees).items():
        found = circle(needs, folders_in(trees, folder))
        assert found is None, f"in {folder}: {' -> '.join(found)}"


def test_the_package_is_read(trees):
    assert {"lower", "emit"} <= arrows(trees)[PACKAGE]["run"]


WRITTEN = {
    "p.a.one": "from p.b.two import f",
    "p.b.two": "",
    "p.b.three": "from p.a import one",
    "p.c": "from p import d",
    "p.d": "import p.c",
}


def found_in(written):
    trees = {module: ast.parse(source) for module, source in written.items()}
    return circle(arrows(trees)["p"], folders_in(trees, "p"))


def test_a_circle_of_folders_is_found():
    assert {*found_in(WRITTEN)} == {"a", "b"}


@pytest.mark.parametrize(
    "later",
    [
        "def f():\n    from p.a import one",
        "if TYPE_CHECKING:\n    from p.a import one",
        "one = lazy('p.a.one:f')",
    ],
)
def test_what_is_imported_later_closes_no_circle(later):
    assert found_in(WRITTEN | {"p.b.three": later}) is None
