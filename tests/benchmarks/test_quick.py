"""Every benchmark runs, and its compiled results are the eager ones."""

import sys

import numpy as np
import pytest

from functrans import jit, lax, tree
from tests.benchmarks import against_numpy
from tests.benchmarks.adjoint import compare
from tests.benchmarks.contractions import DRAWN, ROWS, drawn, run_once
from tests.benchmarks.door import one_number, solvers
from tests.benchmarks.forms import forms
from tests.benchmarks.layers import product
from tests.benchmarks.one import ALL, functrans_library
from tests.benchmarks.ratios import elementwise, gradients, memory
from tests.benchmarks.rooflines import Speeds, bound, deposit, heat, operations
from tests.benchmarks.watching import WATCHES, WORK, rows


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ALL)
def test_it_runs(name):
    library, compiled, flat = functrans_library()
    job = ALL[name][0](library)
    results = flat(compiled(job.function)(*job.arguments))
    assert results
    assert all(np.isfinite(result).all() for result in results)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", forms(functrans_library()[0]))
def test_forms(name):
    library, compiled, flat = functrans_library()
    function, args = forms(library)[name]
    for one, other in zip(flat(compiled(function)(*args)), flat(function(*args)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.small is not row.make])
def test_contractions(name):
    library = functrans_library()[0]
    job = ROWS[name].small(library)
    results, expected = run_once(ROWS[name].small), job.function(*job.arguments)
    for one, other in zip(results, tree.leaves(expected), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize("name", DRAWN)
def test_drawn_products(name):
    for shape in drawn(3, 100):
        job = product(shape, DRAWN[name])(functrans_library()[0])
        (found,) = run_once(product(shape, DRAWN[name]))
        np.testing.assert_allclose(found, np.matmul(*job.arguments), rtol=1e-3, atol=1e-4)


@pytest.mark.full
def test_the_adjoint_by_hand_agrees():
    hand, found = compare(rounds=1)
    assert hand > 0
    assert found > 0


@pytest.mark.full
def test_gradients_beside_their_functions():
    rows = list(gradients(0.0))
    assert len(rows) == 9
    assert all(row.ratio > 0 for row in rows)
    assert str(rows[0]).startswith("scalar gradient / its function")


@pytest.mark.full
def test_elementwise_work_beside_numba():
    assert [row.name for row in elementwise(1000, 0.0)] == [
        "exp(-x*x)*x+1 / Numba's loop",
        "a polynomial / Numba's loop",
    ]


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_before_and_after():
    assert 0.5 < memory(40).ratio < 2.0


@pytest.mark.dear
def test_what_everybody_pays_is_measured():
    names = [row.name for row in solvers()]
    assert names == [
        "minimize, 10 parameters, with gradient",
        "solve_ivp, a compiled right-hand side",
    ]
    row = one_number(np.ones(1000), "8 kB")
    assert row.ours > 0
    assert str(row).startswith("one number of 8 kB closed over")


@pytest.mark.dear
def test_watching_is_measured():
    found = list(rows(1, blocks=1))
    assert len(found) == len(WORK) * len(WATCHES)
    assert all(row.without > 0 and row.watched > 0 for row in found)


def test_what_a_program_cannot_do_without():
    def steps(x, y):
        return lax.fori_loop(0, 5, lambda _, z: np.exp(z @ y) / 3.0, x)

    x, y = np.ones((40, 50)) / 100, np.ones((50, 50))
    found = operations(jit(steps).lower(x, y).graph())
    assert found.products == 5 * 2 * 40 * 50 * 50
    assert found.divisions == 5 * 40 * 50
    assert 5 * 40 * 50 * 10 < found.others < 5 * 40 * 50 * 60
    one = bound(steps, (x, y), lambda dtype: Speeds(1e11, 1e9))
    assert one.moved == x.nbytes * 2 + y.nbytes and one.reached > 0


@pytest.mark.full
@pytest.mark.parametrize("make", [heat, deposit])
def test_programs_of_rooflines(make):
    function, args = make(functrans_library()[0])
    np.testing.assert_allclose(jit(function)(*args), function(*args), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", against_numpy.FAMILIES)
def test_against_numpy(family):
    _, function, args = next(family())
    assert all(seconds > 0 for seconds in against_numpy.compare(function, args))
