"""Hermitian test matrices of many kinds, and error bounds for their decompositions."""

import numpy as np

from functrans import jit
from functrans.ir.types import interleaved
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.verify import verify
from functrans.optimise import legalised, optimise
from tests.emit.cuda.on_cpu import run_on_cpu
from tests.emit.cuda.programs import emulate_plan
from tests.loop.plans import evaluate_plan, shuffled
from tests.ops.on_a_grid import SMALL
from tests.targets import target

MANY = 1 << 40

SERIAL = target(
    CUDA,
    grid=dict.fromkeys(("shortest", "largest_local", "apart", "launch", "rows"), MANY),
    teams={"most_in_registers": 0},
)
"""A GPU whose threads have a matrix each, of any size."""

REGISTERS = target(SERIAL, teams={"most_in_registers": 256})
"""The same, with small matrices in their registers."""

TEAMS = {
    "large": target(CUDA, teams={"most_in_registers": 0}),
    "small": target(SMALL, teams={"most_in_registers": 0}),
    "in memory": target(CUDA, grid={"rows": 256}, teams={"most_in_registers": 0}),
}
"""GPUs with a team for each matrix."""

CALLING = target(CUDA, libraries=True)


def planned(function, *operands, on=CUDA):
    """A plan, and what it is given."""
    graph, captured, *_ = jit(function).program_for(operands, {})
    made = pipeline.plan(legalised(optimise(graph), on), on)
    given = [interleaved(x, x.dtype) if x.dtype.kind == "c" else x for x in (*operands, *captured)]
    return made, given


def plan(function, *operands, on=CUDA):
    return planned(function, *operands, on=on)[0]


def evaluated(function, *operands, on=CUDA):
    made, given = planned(function, *operands, on=on)
    verify(made)
    return evaluate_plan(made, given, shuffled(0))


def by_one_thread(function, *operands, on=SERIAL):
    def run(source, arguments, blocks, threads, seed, known, shared):
        run_on_cpu(source, arguments, blocks, threads)
        for written in known.values():
            written[...] = True

    made, given = planned(function, *operands, on=on)
    return emulate_plan(made, given, grid=on.grid, run=run)


# -- matrices of many kinds ------------------------------------------------------------------------


def orthogonal(n, dtype, rng):
    x = rng.normal(size=(n, n))
    return np.linalg.qr(x + 1j * rng.normal(size=(n, n)) if dtype in "FD" else x)[0]


def kinds(n, dtype, seed=0):
    """Hermitian matrices, each of which is difficult in a way of its own."""
    rng = np.random.default_rng(seed)
    q, i, scales = orthogonal(n, dtype, rng), np.arange(n), 10.0 ** np.linspace(-8, 8, n)

    def of(values):
        return (q * np.asarray(values)[:n]) @ q.conj().T

    drawn = of(rng.normal(size=n))
    blocks = np.zeros_like(q)
    blocks[n // 2 :, n // 2 :] = of(1.0 + i)[n // 2 :, n // 2 :]
    blocks[0, 0] = 1e20
    found = {
        "drawn": drawn,
        "zero": np.zeros((n, n)),
        "identity": np.eye(n),
        "diagonal": np.diag(rng.normal(size=n)),
        "huge": drawn * 1e30,
        "tiny": drawn * 1e-30,
        "ones": np.ones((n, n)),
        "two values": of(np.repeat([1.0, 2.0], n)[n // 2 :]),
        "three values": of(np.repeat([1.0, 2.0, -3.0], -(-n // 3))),
        "projection": q[:, : n // 2] @ q[:, : n // 2].conj().T,
        "complete graph": n * np.eye(n) - np.ones((n, n)),
        "ring": 2 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0),
        "near to each other": of(1 + 1e-13 * rng.normal(size=n)),
        "graded": of(10.0 ** -np.linspace(0, 30, n)),
        "scaled": scales[:, None] * drawn * scales,
        "rank one": np.outer(q[0], q[0].conj()),
        "backwards": np.eye(n)[::-1],
        "Hilbert": 1 / (1 + i[:, None] + i),
        "blocks of their own": blocks,
    }
    return {name: a.astype(dtype) for name, a in found.items()}


def wide(x):
    return x.astype(np.result_type(x.dtype, np.float64))


def unit(x):
    """Matrices of size 1, and what they were divided by."""
    size = np.abs(x).max(axis=(-2, -1), keepdims=True, initial=0)
    size = np.where(size == 0, 1, size)
    return x / size, size


def check_spectra(a, values, vectors):
    """As exact as can be asked for: within n units in the last place of the norm."""
    assert values.dtype == np.finfo(a.dtype).dtype and vectors.dtype == a.dtype
    n, eps = a.shape[-1], np.finfo(a.dtype).eps
    a, size = unit(wide(a))
    values, vectors = wide(values) / size[..., 0], wide(vectors)
    norm = np.linalg.norm(a, 2, axis=(-2, -1))
    norm = np.where(norm == 0, 1, norm)
    rest = np.linalg.norm(a @ vectors - vectors * values[..., None, :], axis=(-2, -1)) / norm
    assert (rest <= 3 * n * eps).all()
    apart = np.linalg.norm(vectors.conj().mT @ vectors - np.eye(n), axis=(-2, -1))
    assert (apart <= 8 * n * eps).all()
    assert (np.diff(values, axis=-1) >= 0).all()
    wrong = np.abs(values - np.linalg.eigvalsh(a)).max(-1, initial=0) / norm
    assert (wrong <= (4 + n / 2) * eps).all()  # NumPy's own errors among them, which differ by BLAS


def check_singular(a, u, s, vh):
    assert (u.dtype, s.dtype, vh.dtype) == (a.dtype, a.dtype, a.dtype)
    n, k, eps = max(a.shape[-2:]), s.shape[-1], np.finfo(a.dtype).eps
    a, size = unit(wide(a))
    u, s, vh = wide(u), wide(s) / size[..., 0], wide(vh)
    norm = np.linalg.norm(a, 2, axis=(-2, -1))
    norm = np.where(norm == 0, 1, norm)
    made = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    assert (np.linalg.norm(made - a, axis=(-2, -1)) / norm <= 3 * n * eps).all()
    for vectors in (u, vh.mT):
        apart = vectors.mT @ vectors - np.eye(vectors.shape[-1])
        assert (np.linalg.norm(apart, axis=(-2, -1)) <= 8 * n * eps).all()
    assert (np.diff(s, axis=-1) <= 0).all() and (s >= 0).all()
    # (LAPACK's are up to 24 units off, of three values near to each other, where ours are exact)
    wrong = np.abs(s - np.linalg.svd(a, compute_uv=False)).max(-1, initial=0) / norm
    assert (wrong <= (25 + n / 2) * eps).all()


def stack(n, dtype):
    return np.stack(list(kinds(n, dtype).values()))
