"""The exact text of errors of `functrans.random`, and of the warning about other generators."""

from __future__ import annotations

import functools
import random as python_random
import re
import warnings

import numpy as np
import pytest

from functrans import grad, jit, random, vmap
from functrans.api import randomness
from functrans.errors import AxisSizeError, DtypeError, ShapeError
from tests.errors.words import message_of

KEY = random.key(0)

CALLS = [
    (DtypeError, lambda: random.normal(0),
     "random.normal takes a key{here}, found the number 0: make a key of it, random.key(0)"),
    (DtypeError, lambda: random.uniform(np.zeros(2)),
     "random.uniform takes a key{here}, which is a uint32 array of shape (2,), found "
     "ndarray float64[2]: make one by random.key(seed), or split one"),
    (DtypeError, lambda: random.split(None),
     "random.split takes a key{here}, which is a uint32 array of shape (2,), found None of type "
     "NoneType: make one by random.key(seed), or split one"),
    (ShapeError, lambda: random.bits(np.zeros(3, np.uint32)),
     "random.bits takes a key{here}, which is a uint32 array of shape (2,), found one of shape "
     "(3,): make one by random.key(seed), or split one"),
    (ShapeError, lambda: random.normal(random.split(KEY, 3)),
     "random.normal takes one key{here}, found an array of keys of shape (3,): use vmap, or one of "
     "them, keys[0]"),
    (ShapeError, lambda: random.normal(KEY, (3, -1)),
     "random.normal takes a shape{here}, and sizes are not negative: found (3, -1)"),
    (ShapeError, lambda: random.normal(KEY, 2.5),
     "random.normal takes a shape{here}, found 2.5 of type float: write a tuple of integers"),
    (ShapeError, lambda: jit(lambda n: random.normal(KEY, (n,)))(3),
     "random.normal takes a shape that is known when it is traced{here}, found a traced one: use "
     "static_argnums"),
    (ShapeError, lambda: random.gamma(KEY, np.ones(3), (2,)),
     "the parameters of random.gamma have shapes (3,){here}, which do not broadcast to (2,)"),
    (DtypeError, lambda: random.gamma(KEY, 1j),
     "the parameters of a distribution are real numbers{here}, found complex128: pass x.real"),
    (DtypeError, lambda: random.pareto(KEY, None),
     "the parameters of a distribution are real numbers{here}, found object"),
    (DtypeError, lambda: random.normal(KEY, (), np.int64),
     "random.normal gives floats{here}, and was asked for int64: write "
     "dtype=np.float64, or convert the result by astype"),
    (DtypeError, lambda: random.bits(KEY, (), np.int64),
     "random.bits gives an unsigned integer dtype{here}, and was asked for int64: write "
     "dtype=np.uint64, or convert the result by astype"),
    (DtypeError, lambda: random.randint(KEY, (), 0.0, 3),
     "random.randint takes integers as bounds{here}, and minval has dtype float64: round it, and "
     "convert it by astype(int)"),
    (DtypeError, lambda: random.key(0.5),
     "random.key takes an integer{here}, found 0.5 of type float: write random.key(0)"),
    (DtypeError, lambda: grad(random.normal)(1.0),
     "random.normal takes a key{here}, which is a uint32 array of shape (2,), found f64*[]: make "
     "one by random.key(seed), or split one"),
    (DtypeError, lambda: grad(random.key)(1.0),
     "random.key takes an integer{here}, found f64*[]: write random.key(0)"),
    (DtypeError, lambda: grad(lambda x: random.fold_in(KEY, x))(1.0),
     "random.fold_in takes one integer{here}, found f64*[]: use vmap for several"),
    (DtypeError, lambda: grad(lambda x: random.choice(KEY, x))(1.0),
     "random.choice takes an array or the number of elements{here}, found f64*[]: write an "
     "integer that is not negative, and not traced"),
    (DtypeError, lambda: random.key(2**64),
     "a seed has at most 64 bits{here}, found 18446744073709551616: take it modulo 2**64"),
    (ShapeError, lambda: random.key(np.arange(3)),
     "random.key takes one seed{here}, found an array of shape (3,): write "
     "vmap(random.key)(seeds)"),
    (DtypeError, lambda: random.fold_in(KEY, np.arange(3)),
     "random.fold_in takes one integer{here}, found ndarray int64[3]: use vmap for several"),
    (AxisSizeError, lambda: random.choice(KEY, 3, (4,), replace=False),
     "random.choice was asked for 4 of 3 elements{here}: write replace=True, or fewer"),
    (AxisSizeError, lambda: random.choice(KEY, 0, (4,)),
     "random.choice was asked for 4 of 0 elements{here}: there is nothing to choose from"),
    (ShapeError, lambda: random.choice(KEY, 3, p=np.ones(2)),
     "random.choice takes one probability for each of 3 elements{here}, found p of shape (2,)"),
    (DtypeError, lambda: random.permutation(KEY, -1),
     "random.permutation takes an array or the number of elements{here}, found -1: write an "
     "integer that is not negative, and not traced"),
    (ShapeError, lambda: random.dirichlet(KEY, 1.0),
     "random.dirichlet takes a vector of weights{here}, found one number: write np.full(n, alpha)"),
    (ShapeError, lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(3)),
     "random.multivariate_normal takes a mean of shape (..., n) and a covariance of shape "
     "(..., n, n){here}, found (2,) and (3, 3)"),
    (ShapeError, lambda: random.categorical(KEY, np.zeros((2, 3)), shape=(4,)),
     "the shape of random.categorical ends in that of logits without the axis, (2,){here}, found "
     "(4,)"),
    (ShapeError, lambda: vmap(random.normal)(np.zeros((2, 3), np.uint32)),
     "random.normal takes a key{here}, which is a uint32 array of shape (2,), found one of shape "
     "(3,): make one by random.key(seed), or split one"),
]  # fmt: skip


PLACE = re.compile(r" at test_random\.py:(\d+) \([^`]*\), `([^`]*)`")
"""The file, the line and what is written there, shortened where it is long."""


@pytest.mark.parametrize(("error", "call", "words"), CALLS)
def test_words(error, call, words):
    message = message_of(error, call)
    assert PLACE.sub("{here}", message) == words
    line, text = PLACE.search(message).groups()
    assert int(line) == call.__code__.co_firstlineno
    assert "random." in text


# -- other generators ------------------------------------------------------------------------------

RNG, OTHER = np.random.default_rng(0), np.random.default_rng(2)


class Model:
    def __init__(self):
        self.noise = np.random.default_rng(1)

    def draw(self, x):
        return x + self.noise.normal()


def of_a_global(x):
    return x + RNG.normal()


def of_the_global_one(x):
    return x + np.random.rand()


def of_another_function(x):
    return of_a_global(x) * 2


def of_a_default(x, rng=OTHER):
    return x + rng.normal()


def of_pythons(x):
    return x + python_random.gauss(0, 1)


DRAWING = {
    "Python's": (of_pythons, "of_pythons drew from the generator 'gauss'"),
    "a global": (of_a_global, "of_a_global drew from the generator 'RNG'"),
    "NumPy's": (of_the_global_one, "of_the_global_one drew from NumPy's random numbers"),
    "a function's": (of_another_function, "of_another_function drew from the generator 'RNG'"),
    "a default": (of_a_default, "of_a_default drew from the generator 'rng'"),
    "an attribute": (Model().draw, "draw drew from the generator 'noise'"),
    "a partial function's": (
        functools.partial(of_a_global), "partial drew from the generator 'RNG'"),
}  # fmt: skip

LINES = {
    "Python's": "return x + python_random.gauss(0, 1)",
    "a global": "return x + RNG.normal()",
    "NumPy's": "return x + np.random.rand()",
    "a function's": "return x + RNG.normal()",
    "a default": "return x + rng.normal()",
    "an attribute": "return x + self.noise.normal()",
    "a partial function's": "return x + RNG.normal()",
}


def warnings_of(call):
    randomness._shown.clear()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        call()
    return found


@pytest.mark.parametrize("name", DRAWING)
def test_drawing_while_traced(name):
    function, words = DRAWING[name]
    [warning] = warnings_of(lambda: jit(function)(1.0))
    assert str(warning.message) == (
        f"{words} while jit traced it: what came out is now a constant of the compiled program, "
        "the same in every call. Draw outside and pass the numbers as an argument, or pass a key "
        "and use functrans.random"
    )
    assert warning.category is RuntimeWarning
    with open(warning.filename, encoding="utf-8") as file:
        assert file.readlines()[warning.lineno - 1].strip() == LINES[name]


@pytest.mark.parametrize("name", ["a global", "NumPy's", "a default", "an attribute"])
def test_drawing_under_vmap(name):
    function, words = DRAWING[name]
    [warning] = warnings_of(lambda: vmap(function)(np.ones(2)))
    assert str(warning.message) == (
        f"{words} while vmap traced it: what came out is the same for all examples. Draw an array "
        "outside and map over it, or map over keys and use functrans.random"
    )
    assert len(warnings_of(lambda: jit(vmap(function))(np.ones(2)))) == 1


def of_a_normal_one(x):
    return x + np.random.normal()


def test_a_number_that_numpy_has_kept_is_drawn_as_well():
    for count in (0, 1):
        np.random.seed(0)
        for _ in range(count):
            np.random.normal()
        [warning] = warnings_of(lambda: jit(of_a_normal_one)(1.0))
        assert "drew from NumPy's random numbers" in str(warning.message)


def of_a_new_one(x):
    rng = np.random.default_rng()
    return x + rng.normal()


def of_a_new_one_with_a_seed(x):
    return x + np.random.default_rng(7).normal()


@pytest.mark.parametrize("transform", [jit, vmap])
def test_a_generator_that_is_made_while_traced(transform):
    [warning] = warnings_of(lambda: transform(of_a_new_one)(np.ones(2)))
    assert str(warning.message).startswith(
        "of_a_new_one makes a random generator without a seed, by default_rng(), while "
        f"{transform.__name__} traces it: what it draws is "
    )
    with open(warning.filename, encoding="utf-8") as file:
        assert file.readlines()[warning.lineno - 1].strip() == "rng = np.random.default_rng()"
    assert warnings_of(lambda: transform(of_a_new_one_with_a_seed)(np.ones(2))) == []


def test_a_generator_without_a_state_is_left_alone():
    system = python_random.SystemRandom()
    assert warnings_of(lambda: jit(lambda x: x + system.random())(1.0)) == []


def test_a_line_is_warned_about_once():
    compiled = jit(of_a_global)
    assert len(warnings_of(lambda: [compiled(np.zeros(n)) for n in range(3)])) == 1


def test_what_does_not_draw_gives_no_warning():
    def reads(x):
        return x + len(repr(RNG)) + hash(np.random.normal)

    assert warnings_of(lambda: jit(reads)(1.0)) == []
    assert warnings_of(lambda: jit(random.normal)(KEY)) == []


def test_a_function_that_reaches_itself():
    def around(x, depth=3):
        return x if depth == 0 else around(x, depth - 1) + RNG.normal()

    around.self = around
    assert len(warnings_of(lambda: jit(around)(1.0))) == 1
