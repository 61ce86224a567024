"""SciPy functions run from source on traced values: SciPy's values, and correct derivatives."""

import operator
import os
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import scipy

from functrans import grad, jit, jvp, vmap
from functrans.errors import FunctransError, TracerBoolError, UnsupportedNumPyError
from functrans.scipy import signal as our_signal
from functrans.scipy.from_source import FROM_SOURCE
from functrans.scipy.source.reinterpret import by_source
from tests.amount import one_of_each
from tests.scipy.source.cases import CASES, OPTIONS, UNCOMPILED

pytestmark = pytest.mark.filterwarnings("ignore")


def function_of(path):
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"scipy.{module}"), name)


def numbers(result):
    """What is in a result of SciPy's: arrays, in tuples and in objects with attributes."""
    if isinstance(result, (tuple, list)):
        return [x for each in result for x in numbers(each)]
    if result is None or isinstance(result, str) or callable(result):
        return []
    if isinstance(result, (int, float, complex, np.ndarray, np.generic)) or hasattr(
        result, "dtype"
    ):
        return [result]
    names = [name for name in ("statistic", "pvalue", "mean_direction") if hasattr(result, name)]
    return numbers([getattr(result, name) for name in names])


def moved(x, step):
    if isinstance(x, (tuple, list)):
        return type(x)(moved(each, step) for each in x)
    return x + step * (np.cos(np.arange(np.size(x))).reshape(np.shape(x)) if np.ndim(x) else 1.0)


def directions(x):
    if isinstance(x, (tuple, list)):
        return type(x)(map(directions, x))
    return moved(0.0 * x, 1.0)


def test_each_function_has_a_case():
    entered = {
        f"{module}.{name}" for module, names in FROM_SOURCE.items() for name in names.split()
    }
    entered |= {"signal.residue", "signal.residuez"}  # after checks: scipy/signal/roots.py
    assert entered == {path for path, _, _ in CASES}


@pytest.mark.few(50)
@pytest.mark.parametrize(
    "case",
    one_of_each(operator.itemgetter(0, 2), CASES),
    ids=[f"{path}-{number}" for number, (path, _, _) in enumerate(CASES)],
)
def test_values_and_slopes(case):
    path, arguments, at = case
    function = function_of(path)

    def call(x):
        given = [*arguments[:at], x, *arguments[at + 1 :]]
        return tuple(numbers(function(*given, **OPTIONS.get(path, {}))))

    point, step = arguments[at], 1e-6
    expected = call(point)
    found, slopes = jvp(lambda x: tuple(1.0 * y for y in call(x)), (point,), (directions(point),))
    assert len(found) == len(expected) > 0
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)
    for slope, up, down in zip(
        slopes, call(moved(point, step)), call(moved(point, -step)), strict=True
    ):
        difference = (np.asarray(up) * 1.0 - down) / (2 * step)
        bound = 1e-4 * (1 + np.max(np.abs(difference), initial=0))
        np.testing.assert_allclose(slope, difference, rtol=1e-4, atol=bound)
    if path in UNCOMPILED:
        with pytest.raises(FunctransError):
            jit(call)(point)
    else:
        for x, y in zip(jit(call)(point), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-9)


def test_our_namespaces_have_them_where_numpy_is_not_patched(monkeypatch):
    monkeypatch.setattr("functrans.config.patch_numpy", False)
    found = grad(lambda w: our_signal.butter(2, w)[0][0])(0.3)
    step = 1e-6
    up, down = (scipy.signal.butter(2, 0.3 + s)[0][0] for s in (step, -step))
    np.testing.assert_allclose(found, (up - down) / (2 * step), rtol=1e-6)
    np.testing.assert_array_equal(our_signal.butter(2, 0.3), scipy.signal.butter(2, 0.3))


WITHOUT_PATCHES = """
import numpy as np, scipy.ndimage, scipy.signal
from functrans import jit
from functrans.scipy import ndimage, signal

x, y = np.sin(np.arange(30.0)), np.cos(np.arange(30.0)).reshape(5, 6)
sections = scipy.signal.butter(2, 0.3, output="sos")
for ours, scipys, call, at in [
    (signal, scipy.signal, lambda of, x: of.wiener(x, 3), x),
    (signal, scipy.signal, lambda of, x: of.order_filter(x, np.ones(3), 1), x),
    (signal, scipy.signal, lambda of, x: of.sosfiltfilt(sections, x), x),
    (ndimage, scipy.ndimage, lambda of, x: of.gaussian_laplace(x, 0.7), y),
]:
    found = jit(lambda x: call(ours, x))(at)
    np.testing.assert_allclose(found, call(scipys, at), rtol=1e-9, atol=1e-9)
"""


@pytest.mark.dear
def test_what_they_call_is_ours_where_numpy_is_never_patched():
    """In a process of its own: once a trace has patched NumPy, the functions are known."""
    environment = {**os.environ, "FUNCTRANS_PATCH_NUMPY": "0"}
    subprocess.run([sys.executable, "-c", WITHOUT_PATCHES], env=environment, check=True)


def test_what_scipy_refuses_is_refused_in_its_words():
    with pytest.raises(ValueError, match="critical frequencies must be 0 < Wn < 1"):
        jit(lambda w: scipy.signal.butter(2, w)[0])(1.5)
    compiled = jit(lambda w: scipy.signal.butter(2, w)[0])
    compiled(0.5)
    with pytest.raises(ValueError, match="critical frequencies must be 0 < Wn < 1"):
        compiled(1.5)


def test_many_cut_offs_at_once_are_refused_at_the_line_of_the_user():
    with pytest.raises(TracerBoolError, match=r"test_reinterpret\.py"):
        vmap(lambda w: scipy.signal.butter(2, w)[0])(np.array([0.3, 0.4]))


def test_what_is_compiled_says_so():
    with pytest.raises(
        UnsupportedNumPyError,
        match=r"scipy's find_peaks with these arguments is not supported on traced values at test_"
        r"(?s:.*): what it calls is compiled, and takes plain arrays only$",
    ):
        grad(lambda x: by_source(scipy.signal.find_peaks, (x,), {})[0])(np.ones(3))


def test_functions_are_scipys_after_a_trace():
    scipy.signal.butter(2, 0.3)  # a call outside of traces restores what an earlier one replaced
    code = scipy.signal.butter.__code__
    jit(lambda w: scipy.signal.butter(2, w)[0])(0.3)
    assert type(scipy.signal.butter(2, 0.3)[0]) is np.ndarray
    assert scipy.signal.butter.__code__ is code
