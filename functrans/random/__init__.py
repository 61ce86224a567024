"""Counter-based random numbers, as functions of keys: those of `jax.random`, with equal results.

A key is a uint32 array of shape (2,). The same key gives the same numbers, so functions that draw
random numbers are pure: they can be compiled, mapped over keys and differentiated. For more
numbers, make more keys by `split` or `fold_in`.
"""

from typing import TYPE_CHECKING

from functrans.lazily import homes as _homes
from functrans.lazily import namespace as _namespace

if TYPE_CHECKING:
    from functrans.random.continuous import *  # noqa: F403
    from functrans.random.discrete import *  # noqa: F403
    from functrans.random.gamma_family import *  # noqa: F403
    from functrans.random.integers import *  # noqa: F403
    from functrans.random.inverse_gaussian import *  # noqa: F403
    from functrans.random.keys import *  # noqa: F403
    from functrans.random.multivariate import *  # noqa: F403
    from functrans.random.permutations import *  # noqa: F403
    from functrans.random.ratios import *  # noqa: F403
    from functrans.random.raw_bits import *  # noqa: F403
    from functrans.random.reals import *  # noqa: F403
    from functrans.random.traces import *  # noqa: F403

_HOME = _homes(
    {
        "functrans.random.raw_bits": "bits",
        "functrans.random.continuous": (
            "cauchy double_sided_maxwell exponential gumbel laplace logistic lognormal maxwell "
            "pareto rayleigh triangular weibull_min"
        ),
        "functrans.random.discrete": "binomial categorical geometric multinomial poisson",
        "functrans.random.gamma_family": "gamma loggamma",
        "functrans.random.integers": "bernoulli rademacher randint",
        "functrans.random.inverse_gaussian": "wald",
        "functrans.random.keys": "PRNGKey fold_in key key_data split wrap_key_data",
        "functrans.random.multivariate": "multivariate_normal orthogonal truncated_normal",
        "functrans.random.permutations": "choice permutation shuffle",
        "functrans.random.ratios": "ball beta chisquare dirichlet f generalized_normal t",
        "functrans.random.reals": "normal uniform",
        "functrans.random.traces": "estimate_trace",
    }
)

__all__ = sorted(_HOME)

__getattr__, __dir__ = _namespace(__name__, _HOME)
