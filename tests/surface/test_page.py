"""docs/numpy-coverage.md agrees with the behaviour of each public function on traced values."""

import pytest

from tests.surface.calls import row, tables
from tests.surface.page import namespaces, written

FUNCTIONS = [
    pytest.param(
        namespace,
        name,
        id=f"{namespace.NAME}.{name}",
        # solvers take their time
        marks=pytest.mark.slow if getattr(namespace, "SLOW", False) else (),
    )
    for namespace in namespaces()
    for name in namespace.public()
]


@pytest.mark.parametrize(("namespace", "name"), FUNCTIONS)
def test_a_function_does_what_the_page_says(namespace, name):
    expected = written()[namespace.NAME].get(name)
    assert row(namespace, name) == expected, "run python -m tests.surface.page"


@pytest.mark.parametrize("namespace", namespaces(), ids=lambda n: n.NAME)
def test_the_tables_name_functions_that_there_are(namespace):
    named = {name for table in tables(namespace).values() for name in table}
    removed = {"row_stack"}  # by NumPy 2.5
    assert (named | set(namespace.NO_ARRAYS.split())) - removed <= set(namespace.public())
