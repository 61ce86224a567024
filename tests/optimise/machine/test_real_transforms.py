"""Complex Fourier transforms of which one part is used become real transforms of half the size."""

import pytest

from functrans.optimise.machine.real_transforms import halve_transforms
from tests.ir.written import graph
from tests.optimise.machine.rewrites import rewritten, stays


def transform(operands, axis, scale=1.0):
    return f"split_fft[axis={axis}, scale={scale}] {operands}"


def one_transform(shape, axis, returns, scale=1.0):
    return f"""{{ x:f64[{shape}], y:f64[{shape}] ->
    a, b = {transform("x y", axis, scale)}
    return {returns} }}"""


def transformed(made):
    """How many numbers each transform of a graph is of."""
    return [eqn.inputs[0].aval.size for eqn in made.eqns if eqn.primitive.name == "split_fft"]


@pytest.mark.parametrize("used", ["a", "b"])
@pytest.mark.parametrize(("shape", "axis"), [("24", 0), ("24,3", 0), ("3,24", 1)])
def test_one_part_is_made_of_half_of_the_numbers(shape, axis, used):
    made = graph(one_transform(shape, axis, used, 0.25))
    assert transformed(rewritten(halve_transforms, made)) == [made.in_avals[0].size // 2]


@pytest.mark.parametrize("used", ["c", "d"])
@pytest.mark.parametrize("swapped", [False, True])
def test_of_transforms_along_several_axes_the_first_ones_are_halved_too(used, swapped):
    made = graph(f"""{{ x:f64[24,30], y:f64[24,30] ->
    a, b = {transform("x y", 1, 0.5)}
    c, d = {transform("b a" if swapped else "a b", 0, 3.0)}
    return {used} }}""")
    # where the parts have changed places, what is behind them is another transform
    expected = [24 * 30, 12 * 30] if swapped else [13 * 30, 12 * 30]
    assert transformed(rewritten(halve_transforms, made)) == expected


def test_results_that_are_used_otherwise_are_kept():
    made = graph(f"""{{ x:f64[24,30], y:f64[24,30] ->
    a, b = {transform("x y", 1)}
    c, d = {transform("a b", 0)}
    return a, c }}""")
    assert transformed(rewritten(halve_transforms, made)) == [24 * 30, 12 * 30]


def test_what_stays():
    stays(halve_transforms, one_transform("24", 0, "a, b"))
    # an odd number has no half
    stays(halve_transforms, one_transform("25", 0, "a"))


def test_along_an_axis_twice():
    made = graph(f"""{{ x:f64[24], y:f64[24] ->
    a, b = {transform("x y", 0)}
    c, d = {transform("a b", 0)}
    return c }}""")
    assert transformed(rewritten(halve_transforms, made)) == [24, 12]
