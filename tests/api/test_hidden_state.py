"""State that a compiled function cannot observe causes one warning, at the first call."""

import datetime
import hashlib
import random
import re
import threading
import warnings
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse
from scipy.interpolate import CubicSpline
from scipy.spatial import KDTree

from functrans import grad, jit
from functrans.api import hidden_state, reach
from functrans.errors import UnseenStateWarning


@pytest.fixture
def simulator(monkeypatch):
    """An object of a class written in C, of a package that nobody knows."""
    monkeypatch.setattr(hidden_state, "_KNOWN", hidden_state._KNOWN - {"_hashlib"})
    hidden_state._hides.cache_clear()
    yield hashlib.sha256()
    hidden_state._hides.cache_clear()


def test_state_in_c_is_said_once(simulator):
    def function(x):
        return x * len(simulator.digest())

    compiled = jit(function)
    with pytest.warns(UnseenStateWarning) as found:
        assert compiled(2.0) == 64.0
    assert str(found[0].message) == (
        "function reads an object of _hashlib.HASH, which is written in C and shows nothing of "
        "its state: changes in it are not seen. Pass what changes as an argument; if nothing "
        "does, filter functrans.errors.UnseenStateWarning."
    )
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(2.0)
        compiled(np.ones(3))


def test_state_in_c_within_an_object(simulator):
    class Model:
        def __init__(self):
            self.parts = {"inner": [simulator]}

        def __call__(self, x):
            return x * len(self.parts["inner"][0].digest())

    with pytest.warns(UnseenStateWarning, match=r"_hashlib\.HASH"):
        jit(grad(Model()))(2.0)


def test_more_objects_than_are_looked_at(monkeypatch):
    monkeypatch.setattr(reach, "MOST_OBJECTS", 50)
    many = [[float(i)] for i in range(100)]

    def function(x):
        return x * many[0][0]

    with pytest.warns(UnseenStateWarning, match=r"function reaches more than .* besides its arg"):
        jit(function)(2.0)


ORDINARY = {
    "array": np.ones(3),
    "generator": np.random.default_rng(0),
    "sparse": scipy.sparse.csr_array(np.eye(3)),
    "spline": CubicSpline(np.arange(4.0), np.arange(4.0)),
    "tree": KDTree(np.eye(3)),
    "date": datetime.date(2020, 1, 1),
    "decimal": Decimal(2),
    "pattern": re.compile("a"),
    "lock": threading.Lock(),
    "random": random.Random(0),
    "dtype": np.dtype(float),
    "function": jit(lambda x: x),
    "polynomial": np.polynomial.Polynomial([1.0, 2.0]),
}


def _tables():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    xarray = pytest.importorskip("xarray")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    yield from (frame, frame["a"], frame.index, frame.groupby("b"), frame["b"].astype("category"))
    yield from (pandas.Timestamp(0), pandas.to_datetime(["2020-01-01"]))
    yield from (polars.DataFrame({"a": [1.0]}), polars.Series([1.0]), polars.lit(1.0))
    yield xarray.DataArray([1.0, 2.0])


@pytest.mark.parametrize("name", [*ORDINARY, "tables"])
def test_no_warning_for_what_programs_have(name):
    for given in _tables() if name == "tables" else [ORDINARY[name]]:

        def function(x, given=given):
            assert given is not None
            return x * 2.0

        with warnings.catch_warnings():
            warnings.simplefilter("error", UnseenStateWarning)
            assert jit(function)(1.0) == 2.0
            assert jit(lambda x, g=given: x * 2.0 if g is not None else x)(1.0) == 2.0
