"""User code with type annotations, for mypy and pyright only; it is never run (test_types.py).

A line on which a type error is expected ends in the word WRONG.
"""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from functrans import (
    callback,
    checkpoint,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    trace,
    value_and_grad,
    vmap,
)

Array = NDArray[np.float64]


def loss(w: Array, x: Array, *, scale: float = 1.0) -> np.float64:
    return np.float64(np.sum(w * x) * scale)


@jit
def step(x: Array, n: int) -> Array:
    return x * n


@jit(static_argnames="n", donate_argnums=0)
def power(x: Array, n: int) -> Array:
    return x**n


@vmap(in_axes=(0, None))
def product(a: Array, b: Array) -> Array:
    return a * b


@value_and_grad(argnums=1)
def both(a: Array, b: Array) -> np.float64:
    return np.float64(np.sum(a * b))


@custom_jvp
def clamp(x: Array) -> Array:
    return np.clip(x, -1.0, 1.0)


@clamp.defjvp
def clamp_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return clamp(*primals), tangents[0]


@custom_vjp(nondiff_argnums=1)
def scaled(x: Array, n: int) -> Array:
    return x * n


@checkpoint(policy="dots")
def again(x: Array) -> Array:
    return np.sin(x)


@callback(out_types=np.zeros(3))
def host(x: Array) -> Array:
    return np.sort(x)


class Model:
    def __init__(self) -> None:
        self.w = np.ones(3)

    @jit
    def apply(self, x: Array) -> Array:
        return self.w * x

    @jit(static_argnames=("n",))
    def repeat(self, x: Array, n: int) -> Array:
        return x * n

    @grad
    def slope(self, x: Array) -> np.float64:
        return np.float64(np.sum(self.w * x))


def use() -> None:
    x = np.ones(3)
    model = Model()
    assert_type(step(x, 2), Array)
    assert_type(power(x, n=2), Array)
    assert_type(jit(loss)(x, x, scale=2.0), np.float64)
    assert_type(product(x, x), Array)
    assert_type(vmap(loss)(x, x), np.float64)
    assert_type(jit(vmap(loss))(x, x), np.float64)
    assert_type(value_and_grad(loss)(x, x), tuple[np.float64, Any])
    assert_type(both(x, x), tuple[np.float64, Any])
    assert_type(clamp(x), Array)
    assert_type(scaled(x, 2), Array)
    assert_type(again(x), Array)
    assert_type(model.apply(x), Array)
    assert_type(model.repeat(x, n=2), Array)
    print(step.lower(x, 2).graph(), model.apply.lower(x).schedule(), step.paths())
    print(grad(loss)(x, x, scale=0.5), jacfwd(step)(x, 2), jacrev(step)(x, 2), hessian(loss)(x, x))
    print(hvp(loss)(x, x, x), trace(loss)(x, x).eqns, host(x), model.slope(x), step.__name__)

    step("text", 2)  # WRONG
    grad(loss)(x)  # WRONG
    model.apply()  # WRONG
    product(x, x, 3)  # WRONG
    value_and_grad(loss)(x, x, size=3)  # WRONG
    clamp("text")  # WRONG
