"""Alpha equivalence: which kernels are printed and compiled as one."""

from itertools import combinations

import numpy as np
import pytest

from functrans import grad, jit, trace
from functrans.emit.llvm import kernel as llvm
from functrans.loop.equivalence import form, representatives
from functrans.loop.nodes import index
from functrans.loop.scalar import const
from functrans.loop.statements import For, If, Kernel, Let, Store, buffer, load, local
from functrans.loop.target import CPU
from functrans.lower.pipeline import plan
from functrans.optimise import optimise

F64, F32, I64 = map(np.dtype, (np.float64, np.float32, np.int64))


def written(
    number=0.0,
    dtype=F64,
    extent=20,
    lanes=4,
    bound=None,
    swapped=False,
    again=False,
    inner=7,
    axes=2,
):
    """A kernel of its own buffers, index and local; each argument changes what it does."""
    x, y = (buffer(name, dtype, (20, inner)[:axes]) for name in "xy")
    i, t = index("i", bound), local(dtype)
    place = (i, const(0, I64))[:axes]
    value = load(x, place) * const(number, dtype)
    body = (
        Let((t,), (value,)),
        Store(y, place, (t + value if again else t + t), None),
        If(load(x, place) < const(1.0, dtype), (Store(y, place, value),)),
    )
    loop = For(i, const(0, I64), const(extent, I64), body, lanes=lanes)
    return Kernel((y, x) if swapped else (x, y), 0, (loop,))


def test_names_do_not_matter():
    one, other = written(), written()
    assert form(one) == form(other)
    assert representatives([one, other]) == {one: one, other: one}


@pytest.mark.parametrize(
    "change",
    [
        {"number": -0.0},
        {"number": np.nan},
        {"dtype": F32},
        {"extent": 21},
        {"lanes": 1},
        {"bound": 20},
        {"swapped": True},
        {"again": True},
        {"inner": 8},
        {"axes": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_everything_else_matters(change):
    one, other = written(), written(**change)
    assert form(one) != form(other)
    assert representatives([one, other]) == {one: one, other: other}


def layers(w, b, x):
    for n in range(len(w)):
        x = np.tanh(x @ w[n] + b[n]) if n % 3 else np.sin(x) @ w[n] - b[n]
    return np.sum(x * x)


def attended(w, b, x):
    for one in w:
        scores = x @ one @ x.T
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        x = x + weights @ x / weights.sum(-1, keepdims=True) * b[0]
    return np.sum(x[::2])


@pytest.mark.dear
@pytest.mark.parametrize("function", [layers, attended])
def test_kernels_of_equal_form_have_equal_texts_and_others_have_others(function):
    rng = np.random.default_rng(0)
    w, b, x = rng.normal(size=(6, 20, 20)) / 5, rng.normal(size=(6, 20)), rng.normal(size=(9, 20))
    kernels = plan(optimise(trace(grad(function, argnums=(0, 1)))(w, b, x)), CPU).kernels
    texts = {kernel: llvm.emit(kernel) for kernel in kernels}
    forms = {kernel: form(kernel) for kernel in kernels}
    for one, other in combinations(kernels, 2):
        assert (forms[one] == forms[other]) == (texts[one] == texts[other])
    assert len(set(representatives(kernels).values())) < len(kernels)
    compiled = jit(grad(function, argnums=(0, 1)))(w, b, x)
    for got, wanted in zip(compiled, grad(function, argnums=(0, 1))(w, b, x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
