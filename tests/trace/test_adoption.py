"""Installed packages and imported names, which are traced as the user's code after they refuse."""

import importlib
import math
import sys
import threading
from math import cos
from pathlib import Path

import numpy as np
import pytest
from numpy import array, dot, zeros

from functrans import config, grad, jit, value_and_grad, vmap
from functrans.errors import FunctransError, TracerConversionError
from functrans.trace import adoption, bound_names, source
from functrans.trace.assignable import Assignable

SOURCE = """
import numpy as np
from math import sin
from numpy import array, ndarray, zeros

seen = []

def stored(x):
    a = np.zeros(3)
    a[1] = x
    return a

def by_name(x):
    a = zeros(2)
    a[0] = sin(x)
    return a @ array([x, 1.0])

def as_float(x):
    return float(x) ** 2 if isinstance(x, float) else float(x[0])

KIND = np.float64

def by_a_class(x, kind=None):
    kind = kind or KIND
    assert kind in (np.float32, np.float64) and np.ones(2, kind).dtype == np.float64
    assert issubclass(kind, np.floating) and np.issubdtype(kind, np.floating)
    return kind(x) ** 2

def of_an_array(x):
    if not isinstance(x, (np.ndarray, ndarray)):
        raise ValueError("an array, please")
    return x[0] ** 2

def plain():
    seen.append(type(np.ones(2)))
    return np.ones(2)

def of_its_class(x):
    if np.isscalar(x):
        return 2 * x
    return x.sum() * 3 if isinstance(x, np.ndarray) else 4 * x

def refusing(x):
    plain()
    return memoryview(x)

def positive(x):
    seen.append("called")
    if x < 0:
        raise ValueError("positive, please")
    return x ** 2
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "adopted_one"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(folder.parent)
    importlib.invalidate_caches()
    yield importlib.import_module("adopted_one")
    source.disown(str(folder))
    del sys.modules["adopted_one"]


def is_adopted(package):
    return source.whose(package.__file__) == source.ADOPTED


@pytest.mark.parametrize("name", ["stored", "by_name", "as_float", "by_a_class", "of_an_array"])
def test_packages(package, name):
    x = np.array([0.7, 0.2]) if name == "of_an_array" else 0.7
    function = getattr(package, name)

    def total(x):
        return np.sum(function(x) * 1.5)

    h = np.array([1e-6, 0.0]) if np.ndim(x) else 1e-6
    slope = (total(x + h) - total(x - h)) / 2e-6
    for _ in range(2):
        np.testing.assert_allclose(np.sum(grad(total)(x)), slope, rtol=1e-8)
    np.testing.assert_allclose(jit(total)(x), total(x), rtol=1e-14)
    np.testing.assert_allclose(np.sum(jit(grad(total))(x)), slope, rtol=1e-8)
    np.testing.assert_allclose(vmap(total)(np.array([x, x])), [total(x)] * 2, rtol=1e-14)
    assert is_adopted(package) == (name != "of_an_array")


def test_nothing_is_changed_without_an_error(package):
    assert grad(lambda x: x * package.plain()[0])(1.0) == 1.0
    assert package.seen == [np.ndarray]
    assert not is_adopted(package)


@pytest.mark.parametrize("x", [np.array([1.0, 2.0]), 1.0, np.float64(2.0)])
@pytest.mark.parametrize("transform", [jit, vmap, lambda f: lambda x: value_and_grad(f)(x)[0]])
def test_a_package_sees_the_class_that_a_value_has_in_numpy(package, x, transform):
    y = np.stack([x, x]) if transform is vmap else x
    np.testing.assert_array_equal(
        transform(lambda x: np.sum(package.of_its_class(x)))(y),
        [package.of_its_class(x)] * 2 if transform is vmap else package.of_its_class(x),
    )
    assert not is_adopted(package)


def test_its_names_are_its_own_outside_of_traces(package):
    grad(package.by_name)(1.0)
    grad(package.as_float)(1.0)
    grad(package.by_a_class)(1.0)
    assert package.zeros is np.zeros
    assert package.sin is math.sin
    assert "float" not in vars(package) and package.KIND is np.float64
    assert type(package.stored(1.0)) is np.ndarray


def test_a_package_that_refuses_again_is_left_alone(package):
    with pytest.raises(TypeError, match="Tracer"):
        grad(package.refusing)(1.0)
    assert package.seen == [np.ndarray, Assignable]
    assert not is_adopted(package)
    assert grad(lambda x: x * (package.zeros is np.zeros))(1.0) == 1.0


def test_a_package_that_refuses_again_while_another_thread_traces(package):
    inside, outside = threading.Event(), threading.Event()

    def function(x):
        inside.set()
        outside.wait()
        return x

    thread = threading.Thread(target=lambda: grad(function)(1.0))
    thread.start()
    inside.wait()
    with pytest.raises(TypeError, match="Tracer"):
        grad(package.refusing)(1.0)
    assert package.zeros is np.zeros
    assert package.sin is math.sin
    outside.set()
    thread.join()


def test_some_packages_stay_apart(package, monkeypatch):
    monkeypatch.setattr(source, "_APART", frozenset(("adopted_one",)))
    for function in (package.stored, package.by_name):
        with pytest.raises(TracerConversionError):
            grad(lambda x, function=function: np.sum(function(x)))(1.0)
    assert grad(lambda x: x * (package.zeros is np.zeros))(1.0) == 1.0
    assert jit(lambda x: np.sum(package.of_its_class(x)))(np.ones(2)) == 8.0  # no array


def test_an_error_of_the_package_is_raised(package):
    with pytest.raises(ValueError, match="positive, please") as caught:
        grad(package.positive)(-1.0)
    assert caught.value.__context__ is None
    assert not is_adopted(package)
    assert grad(package.positive)(1.0) == 2.0
    assert package.seen == ["called"] * 3


def test_the_line_of_the_package_is_told(package):
    Path(package.__file__).write_text("def into(x, a):\n    a[0] = x\n    return a.sum()\n")
    importlib.reload(package)
    with pytest.raises(TracerConversionError) as caught:
        grad(lambda x: package.into(x, OUTSIDE))(1.0)
    assert str(caught.value).partition("\n")[2] == (
        "The package adopted_one converts it in __init__.py:2 (into), `a[0] = x`. Write this "
        "formula in your own code, or call the function by functrans.callback, with a derivative "
        "by functrans.custom_jvp. If a constant is meant, write functrans.stop_gradient(x)."
    )


OUTSIDE = np.zeros(2)
LARGE = np.ones(5000)


def test_names_that_a_module_has_imported():
    bound_names.release(globals())
    calls = []

    def function(x):
        calls.append(1)
        a = zeros(3)
        a[0], a[1] = x, cos(x)
        return dot(a, array([1.0, x, 2.0]))

    slope = 1.0 + cos(0.3) - 0.3 * math.sin(0.3)
    np.testing.assert_allclose(grad(function)(0.3), slope, rtol=1e-14)
    assert len(calls) == 2
    np.testing.assert_allclose(grad(function)(0.3), slope, rtol=1e-14)
    assert len(calls) == 3
    np.testing.assert_allclose(jit(grad(function))(0.3), slope, rtol=1e-14)
    assert zeros is np.zeros
    assert cos is math.cos


def test_names_beside_a_captured_array():
    """The function is then a copy, with globals of its own."""

    def function(x):
        return array([x, 2.0 * x]) @ LARGE[:2] + LARGE[-1]

    for module in (True, False):
        if not module:
            bound_names.release(globals())
        assert jit(lambda x: function(x))(3.0) == 10.0
    assert array is np.array


def test_a_namespace_without_such_names_is_not_kept():
    before = {*bound_names._bound}
    scope = {"__name__": "users", "float": float}
    exec("def f(x):\n    return float(x)\n", scope)
    with pytest.raises(TracerConversionError):
        grad(lambda x: scope["f"](x))(1.0)
    assert before == {*bound_names._bound}


def test_other_threads_get_numpys_functions():
    inside, outside = threading.Event(), threading.Event()
    found = []

    def ask():
        inside.wait()
        found.append((type(zeros(2)), cos(0.0)))
        outside.set()

    def function(x):
        inside.set()
        outside.wait()
        return array([x, 1.0]).sum() + zeros(2)[0]

    thread = threading.Thread(target=ask)
    thread.start()
    assert grad(lambda x: array([x]).sum())(1.0) == 1.0
    assert grad(function)(1.0) == 1.0
    thread.join()
    assert found == [(np.ndarray, 1.0)]


def test_functions_that_numba_compiles_read_numpys_functions():
    scope = {"__name__": "users"}
    exec(
        "from math import cos\n"
        "from numpy import array, zeros\n"
        "import numba\n"
        "@numba.njit\n"
        "def compiled(n):\n"
        "    return zeros(n)[0] + cos(0.0)\n"
        "def f(x):\n"
        "    return array([x, 1.0]).sum() * compiled(2)\n",
        scope,
    )
    assert grad(lambda x: scope["f"](x))(1.0) == 1.0


def test_a_name_that_the_code_changes_itself_stays_changed():
    scope = {"__name__": "users"}
    exec(
        "from numpy import array, zeros\n"
        "def f(x):\n"
        "    global zeros\n"
        "    y = array([x]).sum()\n"
        "    zeros = len\n"
        "    return y\n",
        scope,
    )
    assert grad(lambda x: scope["f"](x))(1.0) == 1.0
    assert scope["zeros"] is len
    assert scope["array"] is np.array


def test_it_is_switched_off_with_the_patch(package, monkeypatch):
    monkeypatch.setattr(config, "patch_numpy", False)
    with pytest.raises(FunctransError):
        grad(lambda x: package.stored(x).sum())(1.0)
    with pytest.raises(FunctransError):
        grad(lambda x: array([x]).sum())(1.0)
    assert not is_adopted(package)


def test_an_interrupted_attempt_leaves_the_package_alone(package):
    package.seen.clear()

    def function(x):
        package.seen.append("called")
        if len(package.seen) == 2:
            raise KeyboardInterrupt
        return package.stored(x).sum()

    with pytest.raises(KeyboardInterrupt):
        grad(function)(1.0)
    assert not is_adopted(package)


def test_threads_that_meet_the_same_names_first(monkeypatch):
    """All of them fail before one adopts the names for all."""
    module = sys.modules["users"] = type(sys)("users")
    exec(
        "from numpy import array, zeros\n"
        "def f(x):\n"
        "    return array([x, 2.0]).sum() + zeros(2)[0]\n",
        vars(module),
    )
    met = threading.Barrier(4)

    def meet(error, find=adoption.innermost):
        met.wait()
        return find(error)

    monkeypatch.setattr(adoption, "innermost", meet)
    found = []

    def differentiate():
        try:
            found.append(grad(module.f)(1.0))
        except Exception as error:  # in another thread, it would be lost
            found.append(error)

    threads = [threading.Thread(target=differentiate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del sys.modules["users"]
    assert found == [1.0] * 4
    assert module.array is np.array
