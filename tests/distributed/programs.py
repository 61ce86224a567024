"""Functions of chunks that the tests run with every engine."""

import numpy as np

from functrans import lax
from functrans import numpy as fnp

RNG = np.random.default_rng(11)
SIZE = 12  # falls into 2, 3 and 4 parts


def collectives(n):
    """Every collective along ``"data"``, of a part of shape (12, 3)."""
    ring = [(i, (i + 1) % n) for i in range(n)]
    return {
        "psum": lambda x: lax.psum(x, "data"),
        "pmean": lambda x: lax.pmean(x, "data"),
        "pmax": lambda x: lax.pmax(x, "data"),
        "pmin": lambda x: lax.pmin(x, "data"),
        "all_gather": lambda x: lax.all_gather(x, "data", axis=1),
        "all_gather tiled": lambda x: lax.all_gather(x, "data", axis=1, tiled=True),
        "psum_scatter": lambda x: lax.psum_scatter(x, "data", tiled=True),
        "psum_scatter of columns": lambda x: lax.psum_scatter(
            x.T, "data", scatter_dimension=1, tiled=True
        ),
        "all_to_all": lambda x: lax.all_to_all(x, "data", 0, 1, tiled=True),
        "ppermute": lambda x: lax.ppermute(x, "data", ring),
        "ppermute some": lambda x: lax.ppermute(x, "data", [(0, n - 1)]),
        "axis_index": lambda x: x * lax.axis_index("data"),
        "pvary": lambda x: lax.pvary(x, "data"),
    }


def loss_of(collective):
    """A loss of a weight that all share, and of the parts of some data."""

    def loss(w, x):
        y = fnp.sin(collective(w * x * x))
        return lax.psum((y * (1.0 + lax.axis_index("data"))).sum(), "data")

    return loss


def data(n):
    return RNG.normal(size=(SIZE, 3)), RNG.normal(size=(n * SIZE, 3))
