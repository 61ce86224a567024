"""Multiple roots of traced values, and residues in the denominator."""

import numpy as np
import pytest
import scipy.signal as scipys

from functrans import grad, jit
from functrans.errors import UnsupportedNumPyError
from functrans.scipy import signal as ours

ROOTS = np.array([1.0, 2.0, 1.0005, 2.0, 3.0])
NUMERATOR, TWICE = np.array([1.0, 2.0, 0.5]), np.array([1.0, 2.0, 1.0])


@pytest.mark.parametrize("rtype", ["min", "maximum", "avg"])
@pytest.mark.parametrize("p", [ROOTS, ROOTS + 1j * ROOTS[::-1], ROOTS[:0]])
def test_distinct_roots_are_scipys(rtype, p):
    found, expected = (
        jit(lambda p: ours.unique_roots(p, rtype=rtype))(p),
        scipys.unique_roots(p, rtype=rtype),
    )
    np.testing.assert_allclose(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_the_mean_of_a_group_has_a_share_in_each_root():
    slope = grad(lambda p: scipys.unique_roots(p, rtype="mean")[0][0])(ROOTS)
    np.testing.assert_allclose(slope, [0.5, 0, 0.5, 0, 0])


def test_residues_at_multiple_poles_have_no_derivative_in_the_denominator():
    slope = grad(lambda b: scipys.residue(b, TWICE)[0][0])(NUMERATOR)
    # the remainder's leading coefficient is 0, and its derivative is not
    np.testing.assert_allclose(slope, [-2.0, 1.0, 0.0], atol=1e-9)
    with pytest.raises(UnsupportedNumPyError, match=r"of a traced `b` with b\[0\] == 0 is not"):
        grad(lambda b: scipys.residue(b, TWICE)[0][0])(np.array([0.0, 1.0, 2.0]))
    with pytest.raises(UnsupportedNumPyError, match="of a traced denominator with multiple poles"):
        grad(lambda a: scipys.residue(NUMERATOR, a)[0][0])(TWICE)
    with pytest.raises(ValueError, match=r"^`rtype` must be one of .*, and is 'least'$"):
        grad(lambda p: ours.unique_roots(p, rtype="least")[0][0])(ROOTS)
