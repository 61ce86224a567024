"""The exact text of the most common errors.

``{here}`` in a message stands for the position in this file of the line that failed.
"""

from __future__ import annotations

import enum

import numpy as np
import pytest

from functrans import (
    checkpoint,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    vjp,
    vmap,
)
from functrans.errors import (
    ArgnumsError,
    AxesError,
    AxisSizeError,
    DtypeError,
    IntegerInputError,
    NonScalarOutputError,
    NotDifferentiableError,
    ShapeError,
    StaticArgumentError,
    TreeMismatchError,
)
from tests.errors.words import X, message_of


def loss(weights, x):
    return np.sum((weights * x) ** 2)


def identity(x):
    return x


class Angle(float):
    pass


class Mode(enum.IntEnum):
    FAST = 1


CALLS = [
    # -- vmap
    (AxesError, lambda: vmap(loss, in_axes=(0,))(X, X),
     "in_axes has 1 entry, but loss was called with 2 positional arguments"),
    (AxesError, lambda: vmap(loss, in_axes=(0, 2))(X, X),
     "in_axes maps axis 2 of argument 1 ('x') of loss, which has shape (3,)"),
    (AxesError, lambda: vmap(loss)(X, 2.0),
     "in_axes maps axis 0 of argument 1 ('x') of loss, which has shape (); None leaves it "
     "unmapped"),
    (AxesError, lambda: vmap(loss, in_axes=(0, "x"))(X, X),
     "in_axes must hold integers and None, found 'x' of type str"),
    (AxesError, lambda: vmap(identity, in_axes=({"b": 0},))({"a": X}),
     "in_axes[0] does not fit: at ['b']: expected a leaf, found no such key (argument 0 ('x') of "
     "identity)"),
    (AxisSizeError, lambda: vmap(loss)(X, np.ones(4)),
     "vmap maps axes of different sizes: argument 0 ('weights') of loss has size 3 along axis 0, "
     "argument 1 ('x') of loss has size 4 along axis 0; in_axes says which axes are mapped, None "
     "for an argument that is the same for all"),
    (AxisSizeError, lambda: vmap(identity)({"a": X, "b": [np.ones(4)]}),
     "vmap maps axes of different sizes: argument 0 ('x') of identity, leaf ['a'] has size 3 along "
     "axis 0, argument 0 ('x') of identity, leaf ['b'][0] has size 4 along axis 0; in_axes says "
     "which axes are mapped, None for an argument that is the same for all"),
    (AxisSizeError, lambda: vmap(loss, axis_size=5)(X, X),
     "axis_size=5, but argument 0 ('weights') of loss has size 3 along the mapped axis 0"),
    (AxesError, lambda: vmap(loss, in_axes=None)(X, X),
     "vmap of loss maps no argument: give in_axes an axis, or pass axis_size"),
    (AxesError, lambda: vmap(identity, out_axes=3)(X),
     "out_axes puts the mapped axis at 3, but the result of identity has shape () for one "
     "example"),
    (AxesError, lambda: vmap(identity, out_axes=None)(X),
     "out_axes=None says that a result is the same for every example, but that of identity depends "
     "on a mapped argument"),
    (AxesError, lambda: vmap(identity, out_axes=(0, 0, 0))((X, X)),
     "out_axes does not fit: expected a tuple of 3, found a tuple of 2"),
    (DtypeError, lambda: vmap(loss)(X, "abc"),
     "argument 1 ('x') of loss is 'abc' of type str, not a number or an array: leave it out, and "
     "read it from a closure"),
    (DtypeError, lambda: vmap(loss)(X, np.float32),
     "argument 1 ('x') of loss is <class 'numpy.float32'> of type type, not a number or an array"),
    (ValueError, lambda: vmap(identity, chunk_size=0),
     "chunk_size must be at least 1, not 0"),
    # -- what is differentiated
    (TypeError, lambda: grad(loss(X, X)),
     "grad takes a function, not np.float64(98.0) of type float64: write grad(f)(x), not "
     "grad(f(x))"),
    (NonScalarOutputError, lambda: grad(identity)(X),
     "grad needs a function that returns one number, but identity returned an array of shape "
     "(3,): sum or average it (.sum(), .mean()), or use jacrev or jacfwd for the derivative of "
     "each element"),
    (NonScalarOutputError, lambda: grad(lambda x: (x, x))(1.0),
     "grad needs a function that returns one number, but <lambda> returned a tuple of 2: if the "
     "rest is auxiliary data, write has_aux=True; for the derivative of each array, use jacrev or "
     "jacfwd"),
    (NonScalarOutputError, lambda: grad(lambda x: None)(1.0),
     "grad needs a function that returns one number, but <lambda> returned None: is its return "
     "statement missing?"),
    (NonScalarOutputError, lambda: grad(np.argmax)(X),
     "grad needs a function that returns a float, but argmax returned int64, which has no "
     "derivative"),
    (TypeError, lambda: grad(identity, has_aux=True)(1.0),
     "has_aux=True: identity must return (result, auxiliary data), and returned Tracer(f64*[], "
     "value=np.float64(1.0), traced by grad) of type Tracer"),
    (DtypeError, lambda: jacfwd(lambda x: x > 0)(X),
     "jacfwd needs a function that returns floats, but <lambda> returned bool; return it as "
     "auxiliary data: has_aux=True"),
    (IntegerInputError, lambda: grad(loss)(3, 2.0),
     "grad differentiates with respect to floats, but argument 0 ('weights') of loss has dtype "
     "int64: pass a float (3.0 instead of 3), or leave it out of argnums"),
    (IntegerInputError, lambda: grad(identity)({"a": 1.0, "n": np.arange(3)}),
     "grad differentiates with respect to floats, but argument 0 ('x') of identity, leaf ['n'] has "
     "dtype int64: pass a float (.astype(float)), or leave it out of argnums"),
    (IntegerInputError, lambda: hessian(np.sum)(np.arange(3)),
     "hessian differentiates with respect to floats, but argument 0 ('a') of sum has dtype int64: "
     "pass a float (.astype(float)), or leave it out of argnums"),
    (DtypeError, lambda: grad(identity)(1j),
     "grad needs a function that returns real numbers, but identity returned complex128: return "
     "its real part, or abs(...), or write grad(..., holomorphic=True) if identity has a complex "
     "derivative"),
    (DtypeError, lambda: grad(np.abs, holomorphic=True)(1j),
     "grad of a holomorphic function needs complex results, but absolute returned float64: leave "
     "holomorphic=True out"),
    (DtypeError, lambda: grad(identity, holomorphic=True)(1.0),
     "grad of a holomorphic function needs complex arguments, but argument 0 ('x') of identity has "
     "dtype float64: pass it as complex (.astype(complex)), or leave holomorphic=True out"),
    (DtypeError, lambda: jacrev(identity)(X + 1j),
     "jacrev needs a function that returns real numbers, but identity returned complex128: return "
     "its real part, or abs(...), or write jacrev(..., holomorphic=True) if identity has a complex "
     "derivative"),
    (DtypeError, lambda: jacfwd(identity)(X + 1j),
     "jacfwd differentiates with respect to real numbers, but argument 0 ('x') of identity has "
     "dtype complex128: pass its real and imaginary part, use grad or jacrev if identity returns "
     "real numbers, or write jacfwd(..., holomorphic=True) if it has a complex derivative"),
    (DtypeError, lambda: grad(identity)(np.array([1, None])),
     "argument 0 ('x') of identity is ndarray object[2], whose dtype is not supported: turn it "
     "into numbers outside of the traced function"),
    (DtypeError, lambda: grad(lambda x: "a")(1.0),
     "the result of <lambda> (leaf 0) is 'a' of type str, not a number or an array"),
    (ArgnumsError, lambda: grad(loss, argnums=2)(X, X),
     "argnums=2 for a call of loss with 2 positional arguments: pass what is differentiated by "
     "position"),
    (ArgnumsError, lambda: grad(loss)(weights=X, x=X),
     "argnums=0 for a call of loss with 0 positional arguments: pass what is differentiated by "
     "position"),
    (ArgnumsError, lambda: grad(loss, argnums=(0, -2))(X, X),
     "argnums=(0, -2) names an argument of loss twice"),
    (ArgnumsError, lambda: grad(loss, argnums="x")(X, X),
     "argnums must be an integer or a tuple of integers, found 'x' of type str; for names, write "
     "argnames='x'"),
    (ArgnumsError, lambda: grad(loss, X),
     "argnums must be an integer or a tuple of integers, found ndarray float64[3]. Transforms "
     "return functions, which take the arguments of loss: write grad(f)(x), not grad(f, x)"),
    (ArgnumsError, lambda: hessian(loss, X),
     "argnums must be an integer or a tuple of integers, found ndarray float64[3]. Transforms "
     "return functions, which take the arguments of loss: write grad(f)(x), not grad(f, x)"),
    # -- tangents and cotangents
    (ShapeError, lambda: vjp(np.sin, X)[1](np.ones(2)),
     "the cotangent must have the shape of the result of sin: expected (3,), found (2,)"),
    (ShapeError, lambda: vjp(lambda x: {"s": x}, X)[1]({"s": 1.0}),
     "the cotangent must have the shape of the result of <lambda>: at ['s']: expected (3,), found "
     "()"),
    (TreeMismatchError, lambda: vjp(lambda x: (x, x), X)[1](X),
     "the cotangent must have the structure of the result of <lambda>: expected a tuple of 2, "
     "found a leaf"),
    (DtypeError, lambda: vjp(np.sin, X)[1](1j * X),
     "the cotangent must be real, as the result of sin is: expected float64, found complex128"),
    (ShapeError, lambda: jvp(np.sin, (X,), (np.ones(2),)),
     "the tangents must have the shape of the primals: at [0]: expected (3,), found (2,)"),
    (TreeMismatchError, lambda: jvp(np.sin, (X,), (X, X)),
     "the tangents must have the structure of the primals: expected a tuple of 1, found a tuple of "
     "2"),
    (TypeError, lambda: jvp(np.sin, X, X),
     "jvp takes the primals as a tuple, with one entry for each argument of sin, not ndarray "
     "float64[3]: write (x,) for one argument"),
    (ShapeError, lambda: linearize(np.sin, X)[1](1.0),
     "the tangents must have the shape of the primals: at [0]: expected (3,), found ()"),
    (ShapeError, lambda: hvp(np.sum)(X, np.ones(2)),
     "the vector must have the shape of argument 0 ('a') of sum: expected (3,), found (2,)"),
    (TypeError, lambda: hvp(loss)(X),
     "hvp(loss) takes the arguments of loss and then the vector, by position; found 1 positional "
     "argument(s)"),
    (NotDifferentiableError, lambda: linear_transpose(lambda x: 1.0, X),
     "<lambda> is not linear in its arguments: a result does not depend on them"),
    (IntegerInputError, lambda: linear_transpose(np.cumsum, np.arange(3)),
     "linear_transpose takes floats, but the example for argument 0 ('a') of cumsum has dtype "
     "int64: a cotangent would lose what is behind the point; give an example of floats"),
    (DtypeError, lambda: linear_transpose(lambda x: (x, "no"), X),
     "a result of <lambda> is 'no' of type str, not a number or an array"),
    (DtypeError, lambda: grad(np.sin)(Angle(1.0)),
     "argument 0 ('x') of sin is 1.0 of type Angle, not a number or an array: write float(x) for "
     "its number"),
    (DtypeError, lambda: vmap(lambda x: (x, Mode.FAST))(X),
     "a result of <lambda> is <Mode.FAST: 1> of type Mode, not a number or an array: write int(x) "
     "for its number"),
    # -- jit
    (StaticArgumentError, lambda: jit(loss, static_argnums=1)(1.0, [1, 2]),
     "argument 1 ('x') of loss is static, so it must be hashable, but [1, 2] of type list is not: "
     "pass a tuple for a list, or let it be traced"),
    (StaticArgumentError, lambda: jit(loss, static_argnames="x")(1.0, x=[1, 2]),
     "argument 'x' of loss is static, so it must be hashable, but [1, 2] of type list is not: pass "
     "a tuple for a list, or let it be traced"),
    (StaticArgumentError, lambda: grad(jit(loss, static_argnums=1), argnums=1)(1.0, 2.0),
     "argument 1 ('x') of loss is static, but it is traced by grad: what is static is a constant "
     "of the compiled program"),
    (ArgnumsError, lambda: jit(loss, static_argnames="m"),
     "static_argnames names 'm', which loss does not take: it takes weights, x"),
    (ArgnumsError, lambda: jit(loss, static_argnums=5),
     "static_argnums names argument 5, but loss takes 2 positional arguments"),
    (ArgnumsError, lambda: jit(loss, static_argnums="x"),
     "static_argnums must be an integer or a tuple of integers, found 'x' of type str; for names, "
     "write static_argnames='x'"),
    (ArgnumsError, lambda: jit(loss, donate_argnames="m"),
     "donate_argnames names 'm', which loss does not take: it takes weights, x"),
    (ArgnumsError, lambda: jit(loss, donate_argnums=(0, -3)),
     "donate_argnums names argument -3, but loss takes 2 positional arguments"),
    (ArgnumsError, lambda: jit(loss, static_argnames="x", donate_argnums=-1),
     "argument 1 ('x') of loss is static and donated: what is static is a constant of the program, "
     "with no memory to give up"),
    (DtypeError, lambda: jit(loss)(1.0, {"mode": "fast"}),
     "argument 1 ('x') of loss, leaf ['mode'] is 'fast' of type str, not a number or an array: "
     "leave it out, and read it from a closure; to "
     "pass it as it is, write jit(f, static_argnums=...) or static_argnames"),
    # -- the rest
    (ValueError, lambda: checkpoint(np.sin, policy="all"),
     "checkpoint has no policy 'all': one of nothing, dots"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "call", "message"), CALLS, ids=[m[:60] for _, _, m in CALLS])
def test_calls(kind, call, message):
    assert message_of(kind, call) == message
