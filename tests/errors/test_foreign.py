"""A function of SciPy's that makes plain arrays of traced values: which one, and what to write."""

import pytest
import scipy.linalg
import scipy.special
import scipy.stats

from functrans import grad, jit
from functrans.errors import TracerConversionError

SENTENCES = {
    "directly": (scipy.linalg.solve_circulant, "call functrans.scipy.linalg.solve_circulant"),
    "decorated": (scipy.linalg.cholesky, "call functrans.scipy.linalg.cholesky"),
    "deep inside": (scipy.linalg.sqrtm, "call functrans.scipy.linalg.sqrtm"),
    "by the array API": (scipy.special.softmax, "call functrans.scipy.special.softmax"),
    "refused": (
        scipy.linalg.schur,
        "use eigh if the matrix is Hermitian, and sqrtm, logm or expm for functions of it",
    ),
}


def message(function, transform, x):
    with pytest.raises(TracerConversionError) as caught:
        transform(lambda a: function(a).sum())(x)
    return str(caught.value)


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.parametrize("transform", [grad, jit])
def test_the_function_and_its_replacement_are_named(name, transform):
    function, instead = SENTENCES[name]
    one = (lambda a: function(a, a)) if name == "directly" else function
    found = message(one, transform, [[4.0]])
    public = f"{'.'.join(function.__module__.split('.')[:2])}.{function.__name__}"
    assert f"\n{public} converts its arguments to plain arrays: {instead}.\nUse NumPy" in found


def test_methods_are_named_by_their_objects():
    found = message(scipy.stats.levy.logpdf, grad, [2.0])
    assert "\nscipy.stats.levy.logpdf converts its arguments to plain arrays: " in found


def test_other_conversions_say_nothing_of_it():
    found = message(lambda a: float(a[0]) + a, grad, [2.0])
    assert "to plain arrays" not in found
