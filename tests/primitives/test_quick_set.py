"""The quick set of `.ci/run` omits samples, but no primitive."""

import pytest

from tests.primitives import (
    test_compiled,
    test_derivatives,
    test_evaluation,
    test_on_a_grid,
    test_special_values,
)

CHECKS = [
    test_compiled.test_machine_code_gives_what_numpy_gives,
    test_compiled.test_machine_code_gives_what_numpy_gives_for_complex_numbers,
    test_derivatives.test_derivatives_at_complex_numbers,
    test_derivatives.test_derivatives_in_float32,
    test_derivatives.test_derivatives_to_second_order,
    test_evaluation.test_vmap_is_a_loop,
    test_on_a_grid.test_kernels_as_they_are_printed,
    test_on_a_grid.test_plans_give_what_numpy_gives_in_any_order,
    test_special_values.test_machine_code_agrees_where_numbers_end,
    test_special_values.test_pairs_agree_with_numpy_where_numbers_end,
]


def primitive_of(value):
    """The primitive that a parameter is about: a case, one with operands, or a name and a dtype."""
    if isinstance(value, str):
        return value.rpartition("-")[0]
    return getattr(value, "primitive", value[0]).name


def drawn(check):
    """The primitives of a test's parameters, those in the quick set and all."""
    [values] = [
        mark.kwargs["argvalues"] if mark.kwargs else mark.args[1]
        for mark in check.pytestmark
        if mark.name == "parametrize" and "machine" not in mark.args
    ]
    finer = {primitive_of(x.values[0]) for x in values if hasattr(x, "marks")}
    quick = {primitive_of(x) for x in values if not hasattr(x, "marks")}
    return quick, quick | finer


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_primitive_is_tried(check):
    quick, full = drawn(check)
    assert quick == full
    assert len(full) > 20
