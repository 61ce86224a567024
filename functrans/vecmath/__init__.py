"""Elementary and special functions as scalar expressions: arithmetic without calls or branches.

Each function takes float16, float32 or float64 scalars (`functrans.loop.scalar`) of one dtype and
returns a scalar of that dtype: straight-line code that a compiler can vectorise. Zeros, infinities,
NaN and subnormal numbers are treated as in NumPy.

Errors are at most 2 units in the last place (1 for exp, log, cbrt, hypot and others; 2.5 for erfc,
ndtr, sech_squared, lgamma, digamma and the inverses of erf and erfc; 3.5 for gamma, ndtri and the
quotients by ``x``; 4 for normal_hazard, 5 for I and K, 6 for polygamma, 6.5 for kl_div and the
exponential integrals, 8 for beta), as `tests/vecmath` measures against mpmath. Where terms cancel,
errors are relative to 1 instead (betaln, log_poisson, J and Y, and lgamma and digamma of negative
arguments), to the larger argument (logaddexp), or to the step (lgamma_difference). Functions that
are exponential in a large number (beta beyond 512, inv_boxcox) have an error of about that many
units.
A printer may contract a product and a sum to an fma: that changes last digits, not these bounds.
"""

from typing import TYPE_CHECKING, Any

from functrans.lazily import homes, lazy

_NAMES = {
    "bessel": "bessel_i bessel_k",
    "bessel_waves": "bessel_j bessel_y",
    "divergence": "kl_div log_poisson pseudo_huber rel_entr",
    "exponential": "exp exp2 expm1 sigmoid",
    "exponential_integral": "exp1 expi",
    "gamma_functions": "digamma lgamma",
    "hyperbolic": "acosh asinh atanh cosh sech_squared sinh tanh",
    "inverse_trigonometric": "acos asin atan atan2 atan2_derivative",
    "logarithm": "log log1p log2 log10",
    "logistic": "logaddexp logaddexp2 logit softplus xlogy",
    "powers": "power",
    "quantile": "erfcinv erfinv ndtri",
    "quotients": "beta betaln lgamma_difference polygamma polygamma_difference",
    "relative": (
        "boxcox boxcox1p exprel exprel_derivative inv_boxcox inv_boxcox1p log1prel_derivative powm1"
    ),
    "roots": "cbrt hypot",
    "special": "erf erfc erfcx log_ndtr ndtr normal_hazard",
    "stirling": "gamma gammasgn rgamma",
    "trigonometric": "cos deg2rad rad2deg sin tan",
}
"""The functions of each module. Only compiled forms call them, so they are imported then."""

_HOME = homes(_NAMES, __name__)
__all__ = sorted(_HOME)
globals().update({name: lazy(f"{module}:{name}") for name, module in _HOME.items()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
