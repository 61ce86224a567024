"""Elementary and special functions as scalar expressions: arithmetic without calls or branches.

Each function takes float16, float32 or float64 scalars (`functrans.loop.scalar`) of one dtype and
returns a scalar of that dtype: straight-line code that a compiler can vectorise. Zeros, infinities,
NaN and subnormal numbers are treated as in NumPy.

Errors are at most 2 units in the last place (1 for exp, log, cbrt, hypot and others; 2.5 for erfc,
sech_squared, lgamma, digamma and the inverses of erf and erfc; 3.5 for gamma, ndtri and the
quotients by ``x``; 4 for normal_hazard, 5 for I and K, 6 for polygamma, 6.5 for kl_div and the
exponential integrals, 8 for beta), as `tests/vecmath` measures against mpmath. Where terms cancel,
errors are relative to 1 instead (betaln, J and Y, and lgamma and digamma of negative arguments), to
the larger argument (logaddexp), or to the step (lgamma_difference). Functions that are exponential
in a large number (beta beyond 512, inv_boxcox) have an error of about that many units.
A printer may contract a product and a sum to an fma: that changes last digits, not these bounds.
"""

from functrans.lazily import lazy

# only compiled forms call them
bessel_i = lazy("functrans.vecmath.bessel:bessel_i")
bessel_k = lazy("functrans.vecmath.bessel:bessel_k")
i0 = lazy("functrans.vecmath.bessel:i0")
i0e = lazy("functrans.vecmath.bessel:i0e")
i1 = lazy("functrans.vecmath.bessel:i1")
i1e = lazy("functrans.vecmath.bessel:i1e")
k0 = lazy("functrans.vecmath.bessel:k0")
k0e = lazy("functrans.vecmath.bessel:k0e")
k1 = lazy("functrans.vecmath.bessel:k1")
k1e = lazy("functrans.vecmath.bessel:k1e")
bessel_j = lazy("functrans.vecmath.bessel_waves:bessel_j")
bessel_y = lazy("functrans.vecmath.bessel_waves:bessel_y")
j0 = lazy("functrans.vecmath.bessel_waves:j0")
j1 = lazy("functrans.vecmath.bessel_waves:j1")
y0 = lazy("functrans.vecmath.bessel_waves:y0")
y1 = lazy("functrans.vecmath.bessel_waves:y1")
kl_div = lazy("functrans.vecmath.divergence:kl_div")
pseudo_huber = lazy("functrans.vecmath.divergence:pseudo_huber")
rel_entr = lazy("functrans.vecmath.divergence:rel_entr")
exp = lazy("functrans.vecmath.exponential:exp")
exp2 = lazy("functrans.vecmath.exponential:exp2")
expm1 = lazy("functrans.vecmath.exponential:expm1")
sigmoid = lazy("functrans.vecmath.exponential:sigmoid")
exp1 = lazy("functrans.vecmath.exponential_integral:exp1")
expi = lazy("functrans.vecmath.exponential_integral:expi")
digamma = lazy("functrans.vecmath.gamma_functions:digamma")
lgamma = lazy("functrans.vecmath.gamma_functions:lgamma")
acosh = lazy("functrans.vecmath.hyperbolic:acosh")
asinh = lazy("functrans.vecmath.hyperbolic:asinh")
atanh = lazy("functrans.vecmath.hyperbolic:atanh")
cosh = lazy("functrans.vecmath.hyperbolic:cosh")
sech_squared = lazy("functrans.vecmath.hyperbolic:sech_squared")
sinh = lazy("functrans.vecmath.hyperbolic:sinh")
tanh = lazy("functrans.vecmath.hyperbolic:tanh")
acos = lazy("functrans.vecmath.inverse_trigonometric:acos")
asin = lazy("functrans.vecmath.inverse_trigonometric:asin")
atan = lazy("functrans.vecmath.inverse_trigonometric:atan")
atan2 = lazy("functrans.vecmath.inverse_trigonometric:atan2")
atan2_derivative = lazy("functrans.vecmath.inverse_trigonometric:atan2_derivative")
log = lazy("functrans.vecmath.logarithm:log")
log1p = lazy("functrans.vecmath.logarithm:log1p")
log2 = lazy("functrans.vecmath.logarithm:log2")
log10 = lazy("functrans.vecmath.logarithm:log10")
logaddexp = lazy("functrans.vecmath.logistic:logaddexp")
logaddexp2 = lazy("functrans.vecmath.logistic:logaddexp2")
logit = lazy("functrans.vecmath.logistic:logit")
softplus = lazy("functrans.vecmath.logistic:softplus")
xlogy = lazy("functrans.vecmath.logistic:xlogy")
power = lazy("functrans.vecmath.powers:power")
erfcinv = lazy("functrans.vecmath.quantile:erfcinv")
erfinv = lazy("functrans.vecmath.quantile:erfinv")
ndtri = lazy("functrans.vecmath.quantile:ndtri")
beta = lazy("functrans.vecmath.quotients:beta")
betaln = lazy("functrans.vecmath.quotients:betaln")
lgamma_difference = lazy("functrans.vecmath.quotients:lgamma_difference")
polygamma = lazy("functrans.vecmath.quotients:polygamma")
polygamma_difference = lazy("functrans.vecmath.quotients:polygamma_difference")
boxcox = lazy("functrans.vecmath.relative:boxcox")
boxcox1p = lazy("functrans.vecmath.relative:boxcox1p")
exprel = lazy("functrans.vecmath.relative:exprel")
exprel_derivative = lazy("functrans.vecmath.relative:exprel_derivative")
inv_boxcox = lazy("functrans.vecmath.relative:inv_boxcox")
inv_boxcox1p = lazy("functrans.vecmath.relative:inv_boxcox1p")
log1prel_derivative = lazy("functrans.vecmath.relative:log1prel_derivative")
powm1 = lazy("functrans.vecmath.relative:powm1")
cbrt = lazy("functrans.vecmath.roots:cbrt")
hypot = lazy("functrans.vecmath.roots:hypot")
erf = lazy("functrans.vecmath.special:erf")
erfc = lazy("functrans.vecmath.special:erfc")
erfcx = lazy("functrans.vecmath.special:erfcx")
log_ndtr = lazy("functrans.vecmath.special:log_ndtr")
normal_hazard = lazy("functrans.vecmath.special:normal_hazard")
gamma = lazy("functrans.vecmath.stirling:gamma")
gammasgn = lazy("functrans.vecmath.stirling:gammasgn")
rgamma = lazy("functrans.vecmath.stirling:rgamma")
cos = lazy("functrans.vecmath.trigonometric:cos")
sin = lazy("functrans.vecmath.trigonometric:sin")
tan = lazy("functrans.vecmath.trigonometric:tan")

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atan2_derivative",
    "atanh",
    "bessel_i",
    "bessel_j",
    "bessel_k",
    "bessel_y",
    "beta",
    "betaln",
    "boxcox",
    "boxcox1p",
    "cbrt",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp",
    "exp1",
    "exp2",
    "expi",
    "expm1",
    "exprel",
    "exprel_derivative",
    "gamma",
    "gammasgn",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "inv_boxcox",
    "inv_boxcox1p",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kl_div",
    "lgamma",
    "lgamma_difference",
    "log",
    "log1p",
    "log1prel_derivative",
    "log2",
    "log10",
    "log_ndtr",
    "logaddexp",
    "logaddexp2",
    "logit",
    "ndtri",
    "normal_hazard",
    "polygamma",
    "polygamma_difference",
    "power",
    "powm1",
    "pseudo_huber",
    "rel_entr",
    "rgamma",
    "sigmoid",
    "sin",
    "sinh",
    "softplus",
    "tan",
    "tanh",
    "xlogy",
    "y0",
    "y1",
]
