"""Distributions from their standard form: shared location, scale, support and edge cases.

A `Row` has the formulas of the standard form inside its support. For points outside, they are
evaluated at a point inside, and the result is discarded: no infinity or NaN reaches a derivative.
A point or a parameter that is NaN is not outside: the formulas propagate it, so that a derivative
is NaN where the value is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from functrans.ir.on_device import callers, holds_device
from functrans.lazily import lazy
from functrans.numpy.arrays import array, astype
from functrans.numpy.define import refuse
from functrans.ops.arrays.shape import any_traced
from functrans.ops.elementwise.choice import maximum, select
from functrans.ops.elementwise.compare import equal, greater, greater_equal, less, less_equal
from functrans.ops.elementwise.exponential import exp, log, log1p
from functrans.ops.elementwise.logic import isinf
from functrans.ops.elementwise.power import sqrt
from functrans.ops.elementwise.rounding import floor
from functrans.records import NamedTuple
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]

_stats = lazy("scipy:stats")

UNDERFLOW = -1000.0
"""The exponential function is 0 here; beyond, 0 would be multiplied by an infinite slope."""


class Row(NamedTuple):
    """The standard form of a distribution.

    Its functions take a point (or a probability), followed by the shape parameters.
    """

    name: str
    shapes: tuple[str, ...] = ()
    support: Function = lambda: (-np.inf, np.inf)
    """The ends of the support, as functions of the shape parameters."""
    within: Function = lambda: 0.0
    """A point in the interior of the support, as a function of the shape parameters."""
    valid: Function = lambda: True
    """Whether the shape parameters are valid."""
    logpdf: Function | None = None
    """The logarithm of the density; for a discrete distribution, of the probability."""
    cdf: Function | None = None
    sf: Function | None = None
    logcdf: Function | None = None
    logsf: Function | None = None
    ppf: Function | None = None
    isf: Function | None = None
    mean: Function | None = None
    var: Function | None = None
    entropy: Function | None = None
    discrete: bool = False
    open: bool = False
    """Whether the density is 0 at the ends of the support, although its formula is not."""
    tails: bool = True
    """Whether `cdf` and `sf` have small relative errors in the tails, so that logarithms can be
    taken.
    """


def is_positive(*parameters: Any) -> Any:
    """Whether all parameters are positive."""
    result: Any = True
    for parameter in parameters:
        result = greater(parameter, 0) & result
    return result


def is_whole(*parameters: Any) -> Any:
    """Whether all parameters are whole numbers."""
    result: Any = True
    for parameter in parameters:
        result = equal(floor(parameter), parameter) & result
    return result


def is_count(*parameters: Any) -> Any:
    """Whether all parameters are whole numbers of 0 or more."""
    result = is_whole(*parameters)
    for parameter in parameters:
        result = greater_equal(parameter, 0) & result
    return result


class Arguments(NamedTuple):
    """The parsed arguments of a method."""

    shapes: tuple[Any, ...]
    loc: Any
    scale: Any


def parsed(row: Row, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Parse shape parameters, location and scale, given by position or by name as in SciPy."""
    names = (*row.shapes, "loc") if row.discrete else (*row.shapes, "loc", "scale")
    given = dict(zip(names, args, strict=False))
    unknown = [name for name in kwargs if name not in names or name in given]
    given.update(kwargs)
    missing = [name for name in row.shapes if name not in given]
    if len(args) > len(names) or unknown or missing:
        expected = ", ".join([*row.shapes, *(f"{name}=..." for name in names[len(row.shapes) :])])
        raise TypeError(
            f"the arguments of {row.name}{here()} do not fit: after the points, expected {expected}"
        )
    shapes = tuple(_shape(given[name]) for name in row.shapes)
    return Arguments(shapes, _number(given.get("loc", 0)), _number(given.get("scale", 1)))


def _number(x: Any) -> Any:
    """A point or a parameter; half and single precision become double, in which SciPy computes."""
    x = array(x) if isinstance(x, (list, tuple)) else x
    narrow = isinstance(x, (np.generic, np.ndarray, Tracer)) and x.dtype.kind == "f"
    return astype(x, np.promote_types(x.dtype, np.float64)) if narrow else x


def _shape(x: Any) -> Any:
    """A shape parameter; Python's own 0 would raise where something is divided by it."""
    return np.float64(x) if type(x) in (int, float) and x == 0 else _number(x)


class Distribution:
    """A SciPy distribution that accepts traced values; plain arrays are passed on to SciPy.

    The methods have SciPy's names and signatures, and broadcast their arguments. Outside the
    support, a log-density is ``-inf`` with derivative 0; for invalid parameters it is NaN.

    Raises
    ------
    UnsupportedNumPyError
        If a method (`fit`, `rvs`, ...) has no traced form, or no formula for this distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.stats import norm
    >>> grad(lambda mu: np.sum(norm.logpdf(np.array([1.0, 2.0]), mu, 0.5)))(0.0)
    np.float64(12.0)
    """

    def __init__(self, row: Row) -> None:
        self._row = row
        self.name = row.name
        self._methods: Iterable[str] = METHODS

    def __repr__(self) -> str:
        return f"functrans.scipy.stats.{self.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        """The distribution with its parameters fixed."""
        return Frozen(self, args, kwargs)

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):  # also of a copy, which has no name yet
            raise AttributeError(method)
        if method not in self._methods and not hasattr(self._scipy(), method):
            raise AttributeError(f"{self!r} has no attribute {method!r}")
        return Method(self, method)

    def __dir__(self) -> list[str]:
        return sorted({*self._methods, *dir(self._scipy())})

    def _scipy(self) -> Any:
        return getattr(_stats.resolve(), self.name)

    def _traced(self, method: str) -> Function:
        return partial(_method_of(self._row, method), self._row)


class Method:
    """A descriptor for a method, which dispatches to the traced form if an argument is traced."""

    def __init__(self, of: Distribution, name: str) -> None:
        self._of = of
        self.__name__ = name

    def __repr__(self) -> str:
        return f"{self._of!r}.{self.__name__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any_traced(args, kwargs):
            return self._of._traced(self.__name__)(*args, **kwargs)
        if holds_device(args, kwargs):
            return callers[-1](self, args, kwargs, f"scipy.stats.{self._of.name}.{self.__name__}")
        return getattr(self._of._scipy(), self.__name__)(*args, **kwargs)


class Frozen:
    """A distribution with fixed parameters: its methods take only points."""

    def __init__(
        self, distribution: Distribution, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.dist = distribution
        self.args = args
        self.kwds = kwargs

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwds.items())]
        return f"{self.dist!r}({', '.join(given)})"

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        of_distribution = getattr(self.dist, method)

        def bound(*points: Any, **keywords: Any) -> Any:
            return of_distribution(*points, *self.args, **self.kwds, **keywords)

        bound.__name__ = method
        return bound


# -- the methods -----------------------------------------------------------------------------------


def _refuse(row: Row, method: str, fix: str) -> Any:
    refuse(f"scipy.stats.{row.name}.{method}", fix)


def _method_of(row: Row, name: str) -> Function:
    method = METHODS.get(name)
    other_kind = ("pdf", "logpdf") if row.discrete else ("pmf", "logpmf")
    if method is not None and name not in other_kind:
        return method
    fix = _FIXES.get(name, f"of its methods {', '.join(METHODS)} are")
    return lambda row, *args, **kwargs: _refuse(row, name, fix)


_FIXES = {
    "rvs": "draw by functrans.random, whose numbers have derivatives",
    "fit": "minimise -np.sum(logpdf(data, ...)) with its gradient",
}


def _formula(row: Row, method: str) -> Function:
    function = getattr(row, method)
    if function is None:
        _refuse(row, method, "it has no formula that can be differentiated")
    return function


def _is_proper(row: Row, given: Arguments) -> Any:
    return row.valid(*given.shapes) & greater(given.scale, 0)


def _if_proper(proper: Any, value: Any) -> Any:
    """The value, or NaN with derivatives that are NaN: a factor, not a selected constant."""
    return value if proper is np.True_ else value * select(proper, 1.0, np.nan)


class _Point(NamedTuple):
    """The point at which a function is evaluated, in the standard form."""

    standard: Any  # the point itself
    inner: Any  # the same, replaced by a point in the interior if it is outside of the support
    proper: Any
    outside: Any
    low: Any
    high: Any

    def value(self, inner: Any, outer: Any) -> Any:
        """A function's value from those inside and outside of the support."""
        return _if_proper(self.proper, select(self.outside, outer, inner))


def _is_infinite(end: Any) -> bool:
    """Whether an end of the support is known to be infinite."""
    return isinstance(end, float) and np.isinf(end)


def _scale(given: Arguments) -> Any:
    """The scale, replaced by 1 where there is no distribution; NaN remains."""
    return select(less_equal(given.scale, 0), 1, given.scale)


_CLOSED, _OPEN, _STEPS = (less, greater), (less_equal, greater_equal), (less, greater_equal)
"""How a point outside of a support compares with the ends: those are inside, or outside; the last
step of a discrete distribution function has the value of all points to its right.
"""


def _point(row: Row, x: Any, given: Arguments, beyond: tuple[Function, Function]) -> _Point:
    y = (x - given.loc) / _scale(given)
    low, high = row.support(*given.shapes)
    outside = isinf(y)
    for end, is_beyond in zip((low, high), beyond, strict=True):
        if not _is_infinite(end):
            outside = outside | is_beyond(y, end)
    if row.discrete and beyond is not _STEPS:
        outside = outside | less(floor(y), y)
    inner = select(outside, row.within(*given.shapes), y)
    return _Point(y, inner, _is_proper(row, given), outside, low, high)


def _log_density(row: Row, x: Any, args: Any, kwargs: Any) -> tuple[_Point, Any]:
    given = parsed(row, args, kwargs)
    at = _point(row, _number(x), given, _OPEN if row.open else _CLOSED)
    value = _formula(row, "logpdf")(at.inner, *given.shapes)
    if not (isinstance(given.scale, int) and given.scale == 1):
        value = value - log(_scale(given))
    return at, at.value(value, -np.inf)


def _logpdf(row: Row, x: Any, *args: Any, **kwargs: Any) -> Any:
    return _log_density(row, x, args, kwargs)[1]


def _pdf(row: Row, x: Any, *args: Any, **kwargs: Any) -> Any:
    at, value = _log_density(row, x, args, kwargs)
    if row.discrete:
        return exp(value)
    held = maximum(value, UNDERFLOW)
    for end in (at.low, at.high):  # where the slope of the density need not be 0
        if not _is_infinite(end):
            held = select(equal(at.standard, end), value, held)
    return exp(held)


def _distribution_function(rules: Callable[[Row], Function], left: float, right: float) -> Function:
    """A function of points with constant values on both sides of the support."""

    def method(row: Row, x: Any, *args: Any, **kwargs: Any) -> Any:
        given, x = parsed(row, args, kwargs), _number(x)
        if row.discrete:
            # a step function: evaluate at the step to the left
            at = _point(row, floor(x - given.loc), given._replace(loc=0), _STEPS)
        else:
            at = _point(row, x, given, _OPEN)
        value = rules(row)(at.inner, *given.shapes)
        return at.value(value, select(greater_equal(at.standard, at.high), right, left))

    return method


def _rule(*choices: tuple[str, Callable[[Function], Function]]) -> Callable[[Row], Function]:
    """A rule that converts the first slot of a row that is not None to the requested function."""

    def rule(row: Row) -> Function:
        for slot, convert in choices:
            if (function := getattr(row, slot)) is not None:
                return convert(function)
        return _formula(row, choices[0][0])

    return rule


def _itself(function: Function) -> Function:
    return function


def _complement(function: Function) -> Function:
    return lambda x, *shapes: 1 - function(x, *shapes)


def _exp_of(function: Function) -> Function:
    return lambda x, *shapes: exp(maximum(function(x, *shapes), UNDERFLOW))


_CDF = _rule(("cdf", _itself), ("logcdf", _exp_of), ("sf", _complement))
_SF = _rule(("sf", _itself), ("logsf", _exp_of), ("cdf", _complement))


def _log_rule(slot: str, near: str, far_of: Callable[[Row], Function], *far: str) -> Function:
    """The logarithm of `near`: above 1/2 by its complement `far`, since it is rounded near 1."""

    def rule(row: Row) -> Function:
        share, has_rest = getattr(row, near), any(getattr(row, name) is not None for name in far)
        if getattr(row, slot) is not None or not row.tails or not (share or has_rest):
            return _formula(row, slot)
        rest = far_of(row)
        if share is None:
            return lambda x, *shapes: log1p(-rest(x, *shapes))
        if not has_rest:
            return lambda x, *shapes: log(share(x, *shapes))

        def either(x: Any, *shapes: Any) -> Any:
            p = share(x, *shapes)
            small = less(p, 0.5)
            rest_or_0 = select(small, 0, rest(x, *shapes))
            return select(small, log(select(small, p, 1)), log1p(-rest_or_0))

        return either

    return rule


_LOGCDF = _log_rule("logcdf", "cdf", _SF, "sf", "logsf")
_LOGSF = _log_rule("logsf", "sf", _CDF, "cdf", "logcdf")


def _quantile_function(slot: str, other: str, left_is_low: bool) -> Function:
    """A quantile function, whose values at 0 and 1 are the ends of the support."""

    def method(row: Row, q: Any, *args: Any, **kwargs: Any) -> Any:
        given = parsed(row, args, kwargs)
        q = _number(q)
        direct, turned = getattr(row, slot), getattr(row, other)
        if row.discrete or (direct is None and turned is None):
            _refuse(row, slot, "it has no formula that can be differentiated")
        outside = less_equal(q, 0) | greater_equal(q, 1)
        safe = select(outside, 0.5, q)
        value = turned(1 - safe, *given.shapes) if direct is None else direct(safe, *given.shapes)
        low, high = row.support(*given.shapes)
        first, last = (low, high) if left_is_low else (high, low)
        ends = select(equal(q, 0), first, select(equal(q, 1), last, np.nan))
        value = select(outside, ends, value) * given.scale + given.loc
        return _if_proper(_is_proper(row, given), value)

    return method


def _moment(slot: str, power_of_scale: int) -> Function:
    def method(row: Row, *args: Any, **kwargs: Any) -> Any:
        given = parsed(row, args, kwargs)
        value = _formula(row, slot)(*given.shapes)
        value = value * given.scale if power_of_scale else value
        value = value * given.scale if power_of_scale == 2 else value + given.loc
        return _if_proper(_is_proper(row, given) & _is_there(given.loc), value)

    return method


def _entropy(row: Row, *args: Any, **kwargs: Any) -> Any:
    given = parsed(row, args, kwargs)
    value = _formula(row, "entropy")(*given.shapes) + (0 if row.discrete else log(given.scale))
    return _if_proper(_is_proper(row, given) & _is_there(given.loc), value)


def _is_there(loc: Any) -> Any:
    """Whether a location is not NaN; this also broadcasts the result to the location's shape."""
    return equal(loc, loc)


def _support(row: Row, *args: Any, **kwargs: Any) -> Any:
    given = parsed(row, args, kwargs)
    proper = _is_proper(row, given)
    ends = (end * given.scale + given.loc for end in row.support(*given.shapes))
    return tuple(_if_proper(proper, end) for end in ends)


def _interval(row: Row, confidence: Any, *args: Any, **kwargs: Any) -> Any:
    tail = 0.5 * (1 - _number(confidence))
    return tuple(METHODS["ppf"](row, q, *args, **kwargs) for q in (tail, 1 - tail))


METHODS: dict[str, Function] = {
    "logpdf": _logpdf,
    "pdf": _pdf,
    "logpmf": _logpdf,
    "pmf": _pdf,
    "cdf": _distribution_function(_CDF, 0.0, 1.0),
    "sf": _distribution_function(_SF, 1.0, 0.0),
    "logcdf": _distribution_function(_LOGCDF, -np.inf, 0.0),
    "logsf": _distribution_function(_LOGSF, 0.0, -np.inf),
    "ppf": _quantile_function("ppf", "isf", left_is_low=True),
    "isf": _quantile_function("isf", "ppf", left_is_low=False),
    "mean": _moment("mean", 1),
    "var": _moment("var", 2),
    "std": lambda row, *args, **kwargs: sqrt(METHODS["var"](row, *args, **kwargs)),
    "median": lambda row, *args, **kwargs: METHODS["ppf"](row, 0.5, *args, **kwargs),
    "entropy": _entropy,
    "support": _support,
    "interval": _interval,
}
