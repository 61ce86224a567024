"""Calls with the same meaning in `functrans.random` and `jax.random`, and JAX's results.

The results are those of JAX 0.10.2 with default settings and ``jax_enable_x64``. In an environment
with JAX, ``python -m tests.random.calls`` computes them again.
"""

import importlib
import json
from pathlib import Path

import numpy as np

EXACT = [
    "key(0)", "key(42)", "key(-1)", "key(2**40 + 5)", "key(-2**63)", "key(np.int32(-7))",
    "key(np.uint64(2**63 + 3))",
    "split(k)", "split(k, (2, 3))", "fold_in(k, 12345)", "fold_in(k, np.int64(2**31))",
    "bits(k)", "bits(k, (3,), 'uint8')", "bits(k, (3,), 'uint16')", "bits(k, (3,), 'uint32')",
    "bits(k, (2, 2), 'uint64')", "bits(k, (0, 2), 'uint32')",
    "uniform(k)", "uniform(k, (3, 2), 'float32')", "uniform(k, (3, 2), 'float64')",
    "uniform(k, (4,), 'float32', -0.3, 5.7)", "uniform(k, (4,), 'float64', -0.3, 5.7)",
    "uniform(k, (4,), 'float16')", "uniform(k, (300,), 'float16', -0.3, 5.7)[-5:]",
    "normal(k, (300,), 'float32')[-5:]", "normal(k, (300,), 'float16')[-5:]",
    "randint(k, (5,), 0, 10)", "randint(k, (5,), -100, 100, 'int8')",
    "randint(k, (5,), 0, 256, 'uint8')", "randint(k, (5,), -5, 117, 'int16')",
    "randint(k, (5,), 3, 2**31 - 1, 'int32')", "randint(k, (5,), 0, 2**40, 'int64')",
    "randint(k, (3,), 0, 2**31, 'int32')", "randint(k, (3,), 5, 5)",
    "permutation(k, 17)", "permutation(k, 2600)[:9]", "permutation(k, np.arange(6.0)[::-1])",
    "permutation(k, np.arange(12).reshape(3, 4), axis=1)",
    "permutation(k, np.arange(12).reshape(3, 4), axis=1, independent=True)",
    "choice(k, 9, (5,))", "choice(k, 9, (4,), replace=False)",
    "choice(k, 3, (9,), p=np.array([0.2, 0.3, 0.5]))",
    "choice(k, 4, (3,), replace=False, p=np.array([0.1, 0.2, 0.3, 0.4]))",
    "choice(k, np.arange(8.0).reshape(2, 4), (3,), axis=1)",
    "bernoulli(k, np.float64(0.3), (9,))", "rademacher(k, (9,))",
    "categorical(k, np.log(np.array([0.2, 0.3, 0.5])), shape=(9,))",
    "categorical(k, np.arange(12.0).reshape(3, 4) / 5, axis=0)",
    "geometric(k, np.float64(0.2), (9,))",
]  # fmt: skip
"""Equal in every bit."""

CLOSE = [
    "normal(k, (300,), 'float64')[-5:]", "exponential(k, (4,))", "gumbel(k, (4,))",
    "laplace(k, (4,))", "logistic(k, (4,))", "cauchy(k, (4,))", "maxwell(k, (4,))",
    "lognormal(k, np.float64(0.5), (4,))", "pareto(k, np.float64(3.0), (4,))",
    "rayleigh(k, np.float64(2.0), (4,))", "weibull_min(k, 2.0, 1.5, (4,))",
    "triangular(k, np.float64(0.0), np.float64(1.0), np.float64(4.0), (4,))",
    "wald(k, np.float64(0.7), (4,))", "double_sided_maxwell(k, 1.0, 2.0, (4,))",
    "gamma(k, np.array([0.3, 1.0, 2.5, 70.0]))", "loggamma(k, np.array([3e-3, 0.3, 2.5, 70.0]))",
    "beta(k, np.float64(0.5), np.float64(2.0), (4,))",
    "dirichlet(k, np.array([1.0, 2.0, 0.3]))", "chisquare(k, np.float64(3.0), (4,))",
    "f(k, np.float64(3.0), np.float64(5.0), (4,))", "t(k, np.float64(3.0), (4,))",
    "generalized_normal(k, 1.5, (4,))", "ball(k, 3, 2.0, (2,))",
    "truncated_normal(k, np.float64(-1.0), np.float64(0.5), (4,))",
    "multivariate_normal(k, np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]]))",
    "orthogonal(k, 3)",
]  # fmt: skip
"""Equal up to rounding."""

FILE = Path(__file__).parent / "numbers_of_jax.json"


def evaluate(call, random, key):
    """A call, in one of the namespaces."""
    # (they are imported as they are asked for)
    names = {name: getattr(random, name) for name in dir(random)}
    result = eval(call, {**names, "np": np, "k": key})
    return np.asarray(result)


def key_of(random):
    """The key of all calls; JAX's older function makes one that is an array, as ours."""
    return random.PRNGKey(42)


def recorded():
    """What JAX gave, by the call."""
    return {
        call: np.array(values, dtype).reshape(shape)
        for call, (dtype, shape, values) in json.loads(FILE.read_text(encoding="utf-8")).items()
    }


def make():
    """Write the file anew."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.random.key = jax.random.PRNGKey
    found = {}
    for call in EXACT + CLOSE:
        x = evaluate(call, jax.random, key_of(jax.random))
        found[call] = x.dtype.name, x.shape, x.ravel().tolist()
    lines = (f"  {json.dumps(call)}: {json.dumps(value)}" for call, value in found.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    make()
