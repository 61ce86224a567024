"""Random numbers as functions of keys: `jax.random`'s functions, and its numbers.

A key is a uint32 array of shape (2,). The same key gives the same numbers, so a function that draws
some is as pure as any other: it can be compiled, mapped over keys and differentiated. Who needs
more numbers makes more keys, by `split` or `fold_in`.
"""

from functrans.random.bits import bits
from functrans.random.continuous import (
    cauchy,
    double_sided_maxwell,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from functrans.random.discrete import binomial, categorical, geometric, multinomial, poisson
from functrans.random.gamma import gamma, loggamma
from functrans.random.integers import bernoulli, rademacher, randint
from functrans.random.keys import PRNGKey, fold_in, key, key_data, split, wrap_key_data
from functrans.random.multivariate import multivariate_normal, orthogonal, truncated_normal
from functrans.random.permutations import choice, permutation, shuffle
from functrans.random.ratios import ball, beta, chisquare, dirichlet, f, generalized_normal, t
from functrans.random.uniform import normal, uniform

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "shuffle",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]
