"""Calls of the log-densities of `scipy.stats`' distributions: `stats.norm(x)` is `norm.logpdf(x)`.

A distribution that is in no table is called with numbers between 0 and 1.
"""

from types import SimpleNamespace

import scipy.stats

import functrans.scipy.stats


def _log_density(distribution):
    return getattr(distribution, "logpdf", None) or getattr(distribution, "logpmf", None)


_NAMES = sorted(
    name
    for name, found in vars(scipy.stats).items()
    if not isinstance(found, type) and _log_density(found)
)


def _log_densities(module):
    return SimpleNamespace(**{name: _of(module, name) for name in _NAMES})


def _of(module, name):
    log = "logpdf" if hasattr(getattr(scipy.stats, name), "logpdf") else "logpmf"
    return getattr(getattr(module, name), log)


NAME = "scipy.stats (log-densities)"
THEIRS = {"stats": _log_densities(scipy.stats)}
OURS = {"stats": _log_densities(functrans.scipy.stats)}

CALLS = """
stats.bernoulli(1, y)  stats.betabinom(2, 5, y, p)  stats.betanbinom(2, 5, y, p)
stats.binom(2, 5, y)  stats.boltzmann(2, y, 5)  stats.crystalball(x, y, p + 1)
stats.dirichlet(y / np.sum(y), p)  stats.dirichlet_multinomial(k, p, 9)
stats.anglit(y / 2)  stats.erlang(y, 2)  stats.truncexpon(y / 4, p)  stats.weibull_max(-y, p)
stats.dlaplace(2, y)  stats.genhyperbolic(x, 0.5, y + 1, p)  stats.geninvgauss(y, 0.5, p)
stats.geom(2, y)  stats.hypergeom(k, 9, 4, 5)  stats.genextreme(p, q)  stats.genhalflogistic(p, q)
stats.genpareto(p, q)  stats.invwishart(s @ s.T, 4.0, s @ s.T)  stats.irwinhall(y, 3)
stats.kappa4(y, p, q)  stats.ksone(y, 3)  stats.kstwo(y, 3)  stats.levy_l(-y)  stats.logser(2, y)
stats.loguniform(y, p / 5, q + 1)  stats.levy_stable(x, y + 1, p)
stats.matrix_normal(m, rowcov=s @ s.T, colcov=np.diag(y[:4]))
stats.matrix_t(m, row_spread=s @ s.T, col_spread=np.diag(y[:4]))
stats.multinomial(k, 9, y / np.sum(y))  stats.multivariate_hypergeom(k, k + 2, np.sum(k))
stats.multivariate_normal(x[:3], y[:3], s @ s.T)  stats.multivariate_t(x[:3], y[:3], s @ s.T, 3.0)
stats.nbinom(2, y, p)  stats.nchypergeom_fisher(2, 9, 4, 5, y)
stats.nchypergeom_wallenius(2, 9, 4, 5, y)  stats.ncx2(y, 3.0, p)  stats.nhypergeom(k, 12, 5, 4)
stats.normal_inverse_gamma(x, y, p, q, r, t)  stats.norminvgauss(x, y + 1, p)
stats.pareto(y + 2, p)  stats.planck(2, y)  stats.poisson(2, y)  stats.poisson_binom(2, y / 4)
stats.random_table(np.diag(k), k, k)  stats.randint(k, 0, 5)  stats.reciprocal(y, p / 5, q + 1)
stats.skellam(2, y, p)  stats.studentized_range(y, 3, 4)  stats.trapezoid(y, p / 2, 0.5 + q / 2)
stats.triang(y, p)  stats.truncnorm(y / 4, -p, q)  stats.truncpareto(y + 1, p, q + 2)
stats.truncweibull_min(y / 4 + 0.5, p, q / 2, r + 2)
stats.vonmises_fisher(x[:3] / np.linalg.norm(x[:3]), y[:3] / np.linalg.norm(y[:3]), 0.5)
stats.wishart(s @ s.T, 4.0, s @ s.T)  stats.yulesimon(2, y)  stats.zipf(2, y + 1.5)
stats.zipfian(2, y, 5)
"""


def _others():
    """Calls of the continuous distributions that are not above, with all of their shapes."""
    for name in _NAMES:
        found = getattr(scipy.stats, name)
        if f"stats.{name}(" not in CALLS and isinstance(found, scipy.stats.rv_continuous):
            yield f"stats.{name}({', '.join(['y', *'pqrt'][: found.numargs + 1])})"


CALLS += "\n".join(_others())
NO_ARRAYS = ""


def public():
    """The distributions that have a density."""
    return _NAMES
