"""The distributions of `scipy.stats` and its statistics, under its names, for traced values, too.

Plain arrays are passed on to SciPy. Both ``norm.logpdf(x, loc, scale)`` and ``norm(loc,
scale).logpdf(x)`` are differentiable in the points and in all continuous parameters.
"""

from __future__ import annotations

from typing import Any

from functrans.lazily import lazy
from functrans.scipy.entries import enter as _enter
from functrans.scipy.entries import namespace as _namespace
from functrans.scipy.inside import all_refused as _all_refused
from functrans.scipy.stats import counted as _counted
from functrans.scipy.stats import densities as _densities
from functrans.scipy.stats import derived as _derived
from functrans.scipy.stats import discrete as _discrete
from functrans.scipy.stats import frequencies as _frequencies
from functrans.scipy.stats import intervals as _intervals
from functrans.scipy.stats import means as _means
from functrans.scipy.stats import multivariate as _multivariate
from functrans.scipy.stats import positive_axis as _positive_axis
from functrans.scipy.stats import real_axis as _real_axis
from functrans.scipy.stats import samples as _samples
from functrans.scipy.stats import spreads as _spreads
from functrans.scipy.stats.distribution import Distribution as _Distribution
from functrans.scipy.stats.frequencies import *  # noqa: F403
from functrans.scipy.stats.kernels import gaussian_kde
from functrans.scipy.stats.means import *  # noqa: F403
from functrans.scipy.stats.samples import *  # noqa: F403
from functrans.scipy.stats.spreads import *  # noqa: F403
from functrans.scipy.stats.untraced import Untraced as _Untraced

_ROWS = (
    *_real_axis.ROWS,
    *_positive_axis.ROWS,
    *_intervals.ROWS,
    *_densities.ROWS,
    *_derived.ROWS,
    *_discrete.ROWS,
    *_counted.ROWS,
)

_DISTRIBUTIONS: dict[str, Any] = {
    **{row.name: _Distribution(row) for row in _ROWS},
    **{family.name: _multivariate.Multivariate(family) for family in _multivariate.FAMILIES},
}
_DISTRIBUTIONS["reciprocal"] = _DISTRIBUTIONS["loguniform"]

_REFUSED = {
    "boxcox": "write functrans.scipy.special.boxcox(x, lmbda) for an lmbda that is known",
    "shapiro": "compute it outside of the trace, or write jarque_bera or normaltest",
    "yeojohnson": "for an lmbda that is known, write the formula of scipy.stats.yeojohnson",
}

__all__ = [
    *_REFUSED,
    *_DISTRIBUTIONS,
    *_frequencies.__all__,
    *_means.__all__,
    *_samples.__all__,
    *_spreads.__all__,
    "gaussian_kde",
]

globals().update(_DISTRIBUTIONS | _all_refused("scipy.stats", _REFUSED))

_stats = lazy("scipy:stats")
_of_scipys, __dir__ = _namespace("stats", __all__)


def __getattr__(name: str) -> Any:
    found = _of_scipys(name)
    is_distribution = hasattr(found, "logpdf") or hasattr(found, "logpmf")
    return _Untraced(name, found) if is_distribution and not isinstance(found, type) else found


def _ours(distribution: Any) -> Any:
    """Our distribution for one of SciPy's, or the refusal of one that has no traced form."""
    # multivariate distributions are of a class such as ``multivariate_normal_gen``
    name = getattr(distribution, "name", type(distribution).__name__.removesuffix("_gen"))
    found = _DISTRIBUTIONS.get(name)
    scipys = getattr(_stats.resolve(), name, None)
    return found if found and type(scipys) is type(distribution) else _Untraced(name, distribution)


def _method(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_ours(self), name)(*args, **kwargs)

    return method


_METHODS = {
    "rv_continuous": "cdf entropy interval isf logcdf logpdf logsf mean median pdf ppf sf std "
    "support var",
    "rv_discrete": "cdf isf logcdf logpmf logsf pmf ppf sf",
    **{f.name: " ".join((f.log, f.log[3:], *f.moments)) for f in _multivariate.FAMILIES},
}
"""The methods that dispatch, by their class or object."""

for _owner, _names in _METHODS.items():
    for _name in _names.split():
        _enter(f"scipy.stats:{_owner}.{_name}", _method(_name))
for _family in _multivariate.FAMILIES:
    _enter(
        f"scipy.stats:{_family.name}.__call__",
        lambda self, *args, **kwargs: _ours(self)(*args, **kwargs),
    )


def _of_frozen(name: str) -> Any:
    def method(self: Any, x: Any) -> Any:
        ours = _DISTRIBUTIONS["multivariate_normal"]
        return getattr(ours, name)(x, self.mean, self.cov_object.covariance)

    return method


for _name in ("logpdf", "pdf"):
    _path = f"scipy.stats._multivariate:multivariate_normal_frozen.{_name}"
    _enter(_path, _of_frozen(_name))
