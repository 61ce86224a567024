"""functrans under autograd's names: programs that import autograd run on it, unchanged.

`install` puts modules called ``autograd``, ``autograd.numpy``, ... in the place of the real ones,
for the process in which the clients of autograd are measured (`tests.benchmarks.clients`).
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrans
from functrans import numpy as traced_numpy
from functrans import tree
from functrans.trace.tracer import Tracer


def _unary(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Autograd's form of a transform: the number of the argument comes second."""

    @functools.wraps(transform)
    def of(function: Callable[..., Any], argnum: int | Sequence[int] = 0) -> Callable[..., Any]:
        argnums = argnum if isinstance(argnum, int) else tuple(argnum)
        return transform(function, argnums=argnums)

    return of


def elementwise_grad(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """The gradient of the sum of the results."""
    return functrans.grad(lambda *args: traced_numpy.sum(function(*args)), argnums=argnum)


def make_vjp(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """``make_vjp(f)(x)`` is the pullback, and the value."""

    def at(*args: Any) -> Any:
        def of(x: Any) -> Any:
            return function(*args[:argnum], x, *args[argnum + 1 :])

        value, pullback = functrans.vjp(of, args[argnum])
        return lambda g: pullback(g)[0], value

    return at


def make_jvp(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """``make_jvp(f)(x)(v)`` is the value, and its tangent."""

    def at(*args: Any) -> Any:
        def of(x: Any) -> Any:
            return function(*args[:argnum], x, *args[argnum + 1 :])

        return lambda v: functrans.jvp(of, (args[argnum],), (v,))

    return at


def make_jvp_reversemode(function: Callable[..., Any]) -> Callable[..., Any]:
    """``make_jvp_reversemode(f)(x)(v)`` is the tangent alone."""
    return lambda x: lambda v: functrans.jvp(function, (x,), (v,))[1]


def make_hvp(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """``make_hvp(f)(x)`` is a product with the Hessian, and the gradient."""
    return make_vjp(functrans.grad(function, argnums=argnum), argnum)


def stack(arrays: Any, *args: Any, **kwargs: Any) -> Any:
    """NumPy's, of a dictionary's values as well."""
    return traced_numpy.stack(list(arrays), *args, **kwargs)


# -- functions with rules --------------------------------------------------------------------------


class Primitive:
    """A function with a pullback for each argument (`defvjp`)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.rules: dict[int, Callable[..., Any] | None] = {}
        functools.update_wrapper(self, function, updated=())
        self._traced: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(x, Tracer) for x in tree.leaves(args)):
            return self.function(*args, **kwargs)
        key = (len(args), tuple(sorted(kwargs.items())))
        if key not in self._traced:
            self._traced[key] = self._with_rule(kwargs)
        return self._traced[key](*args)

    def _with_rule(self, kwargs: dict[str, Any]) -> Callable[..., Any]:
        @functrans.custom_vjp
        def function(*args: Any) -> Any:
            return self.function(*args, **kwargs)

        def forward(*args: Any) -> Any:
            result = self(*args, **kwargs)
            return result, (result, args)

        def backward(kept: Any, ct: Any) -> Any:
            result, args = kept
            rules = [self.rules.get(i) for i in range(len(args))]
            return tuple(None if r is None else r(result, *args, **kwargs)(ct) for r in rules)

        function.defvjp(forward, backward)
        return function


def primitive(function: Callable[..., Any]) -> Primitive:
    """A function that is not traced where it has a rule."""
    return Primitive(function)


def defvjp(function: Any, *rules: Any, argnums: Sequence[int] | None = None) -> None:
    """Set the pullbacks: ``rule(result, *args)(cotangent)``; functions of ours keep their own."""
    if isinstance(function, Primitive):
        function.rules.update(zip(argnums or range(len(rules)), rules, strict=False))


def defjvp(function: Primitive, *rules: Any, argnums: Sequence[int] | None = None) -> None:
    """Forward-mode rules are not needed: what is differentiated here has pullbacks, too."""


def defvjp_argnums(function: Primitive, maker: Callable[..., Any]) -> None:
    """Set all pullbacks at once: ``maker(argnums, result, args, kwargs)(cotangent)`` is a tuple."""

    def rule(i: int) -> Callable[..., Any]:
        return lambda ans, *args, **kwargs: lambda g: maker((i,), ans, args, kwargs)(g)[0]

    function.rules.update({i: rule(i) for i in range(8)})


def unbroadcast_f(target: Any, pullback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A pullback whose result has the shape of an argument that was broadcast."""

    def of(g: Any) -> Any:
        found, shape = pullback(g), np.shape(target)
        found = traced_numpy.sum(found, axis=tuple(range(np.ndim(found) - len(shape))))
        ones = tuple(i for i, n in enumerate(shape) if n == 1)
        return traced_numpy.reshape(traced_numpy.sum(found, axis=ones, keepdims=True), shape)

    return of


# -- modules ---------------------------------------------------------------------------------------


def _module(name: str, like: Any = None, **names: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__path__ = []  # type: ignore[attr-defined]
    if like is not None:
        made.__getattr__ = lambda attribute: getattr(like, attribute)  # type: ignore[method-assign]
        made.__all__ = [n for n in dir(like) if not n.startswith("_")]  # type: ignore[attr-defined]
    vars(made).update(names)
    sys.modules[name] = made
    return made


def install() -> None:
    """Stand in for autograd from now on, in this process."""
    transforms = {
        "grad": _unary(functrans.grad),
        "value_and_grad": _unary(functrans.value_and_grad),
        "jacobian": _unary(functrans.jacrev),
        "hessian": _unary(functrans.hessian),
        "elementwise_grad": elementwise_grad,
        "make_vjp": make_vjp,
        "make_jvp": make_jvp,
    }
    numpy = _module(
        "autograd.numpy",
        traced_numpy,
        stack=stack,
        linalg=_module("autograd.numpy.linalg", traced_numpy.linalg),
        fft=_module("autograd.numpy.fft", traced_numpy.fft),
        random=_module("autograd.numpy.random", np.random),
        numpy_boxes=_module("autograd.numpy.numpy_boxes", ArrayBox=Tracer),
        numpy_vjps=_module("autograd.numpy.numpy_vjps", unbroadcast_f=unbroadcast_f),
    )
    scipy = _module("autograd.scipy", functrans.scipy)
    for name in ("special", "stats", "linalg", "signal", "integrate"):
        module = getattr(functrans.scipy, name)
        setattr(scipy, name, _module(f"autograd.scipy.{name}", module))
    for name in (
        "norm",
        "t",
        "beta",
        "gamma",
        "poisson",
        "chi2",
        "dirichlet",
        "multivariate_normal",
    ):
        log_density = getattr(functrans.scipy.stats, name, None)
        if log_density is not None:
            setattr(scipy.stats, name, log_density)
            sys.modules[f"autograd.scipy.stats.{name}"] = log_density
    import builtins

    names = {name: getattr(builtins, name) for name in ("isinstance", "tuple", "list", "dict")}
    tracer = _module(
        "autograd.tracer",
        getval=functrans.stop_gradient,
        isbox=lambda x: isinstance(x, Tracer),
        Box=Tracer,
        Node=object,
    )
    _module(
        "autograd",
        numpy=numpy,
        scipy=scipy,
        tracer=tracer,
        extend=_module(
            "autograd.extend",
            primitive=primitive,
            defvjp=defvjp,
            defjvp=defjvp,
            defvjp_argnums=defvjp_argnums,
            Box=Tracer,
        ),
        builtins=_module("autograd.builtins", DictBox=dict, ListBox=list, **names),
        misc=_module("autograd.misc", flatten=tree.ravel),
        differential_operators=_module(
            "autograd.differential_operators",
            make_jvp_reversemode=make_jvp_reversemode,
            make_hvp=make_hvp,
            **transforms,
        ),
        __version__="1.8",
        **transforms,
    )
