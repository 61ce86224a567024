"""Only those blocks of the tangents for a basis that are not structural zeros are computed."""

import numpy as np
import pytest

from functrans import hessian, jacfwd, jacrev, jit, jvp, trace, vmap
from functrans.ops.linalg.compiled.blas import counts
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise import optimise
from functrans.optimise.machine.block_rules import (
    _flattened,
    _regrouped,
    _unflattened,
)
from functrans.optimise.machine.zero_blocks import leave_out_zero_blocks
from tests.optimise.machine.rewrites import rewritten
from tests.targets import take_host_for

T = np.linspace(0.1, 1.0, 40)
BONES = np.cos(np.arange(18 * 16.0)).reshape(18, 4, 4) * 0.3 + np.eye(4)
WEIGHTS = np.cos(np.arange(18 * 7.0)).reshape(18, 7)
MIX = np.sin(np.arange(35.0)).reshape(7, 5)


def bumps(p):
    """A sum of bumps: each parameter alone in a term."""
    total = 0 * T
    for i in range(0, 18, 3):
        total = total + p[i] * np.exp(-((T - p[i + 1]) ** 2) * p[i + 2]) * 2.0
    return total


def rotation(a):
    c, s, o = np.cos(a), np.sin(a), np.zeros_like(a)
    rows = [c, -s, o, o], [s, c, o, o], [o, o, o + 1, o], [o, o, o, o + 1]
    return np.stack([np.stack(row) for row in rows])


def fingers(p):
    """Six chains of three joints: a joint moves the bones below it."""
    bones = []
    for i in range(18):
        own = BONES[i] @ rotation(p[i])
        bones.append(bones[-1] @ own if i % 3 else own)
    return np.einsum("bij,jv,bv->iv", np.stack(bones), np.ones((4, 7)) * T[:7], WEIGHTS)


def network(p):
    """Parameters in one vector, whose slices are weights of several shapes."""
    first, shift, second = p[:5], p[5:10], p[10:25].reshape(5, 3)
    return np.tanh(T[:, None] * first + shift) @ second - p[25:28] / 2 + p[28]


def moves(p):
    """What moves, joins, repeats and sums elements."""
    a, b, c = p[2] * T[:8], p[3:9], p[9:17].reshape(2, 4)
    d = np.concatenate([a.reshape(2, 4).T, c.T[:, ::-1], np.ones((4, 1))], axis=1)
    e = np.where(T[:5] > 0.15, d[:, :5], -d[:, :5]) * np.broadcast_to(p[17], (4, 5))
    f = np.zeros((6, 3)).T
    f = np.pad(e[1:3, 1:4].T, ((0, 0), (2, 2))) + f - b
    return np.concatenate([f.ravel(), np.sum(d, 1), [0.0 * p[0], p[1]], (e @ MIX[:5]).ravel()])


def shifted(p):
    """Neighbours of all elements: blocks of nearly all directions."""
    return (np.roll(p, -1) - np.roll(p, 2)) * np.roll(p, 1) - p


def by_halves(p):
    q, v = p[:10], p[10:]
    return np.concatenate([v, -np.sin(q) - 0.1 * v * v])


def by_rows(p):
    """A sum of bumps, whose parameters are rows of a matrix."""
    height, centre, width = p.reshape(-1, 3).T
    return np.sum(height * np.exp(-((T[:, None] - centre) ** 2) * width), axis=1)


def by_steps(p):
    """Every second element, as factors of products on either side."""
    rates, heights = p[1:18:2], p[:18:2]
    decays = np.exp(-T[:, None] * rates)
    return np.concatenate([decays @ heights, heights @ np.outer(rates, T[:3]), p[::-3] * rates[:6]])


def pairs(p):
    """Differences of all points and all others, and one that is not moved."""
    points = p[:18].reshape(-1, 3)
    apart = points[:, None] - points[None]
    force = apart / (1e-3 + np.sum(apart * apart, -1, keepdims=True))
    return np.concatenate([np.sum(force, 1).ravel(), p[:18] - p[4], p[2:] - np.roll(p, 1)[2:]])


def one_layer(p):
    """A network of one hidden layer with one input."""
    return np.tanh(T[:, None] * p[:9] + p[9:18]) @ p[18:27] + p[27]


CASES = {
    "rows": (by_rows, 18),
    "steps": (by_steps, 18),
    "pairs": (pairs, 19),
    "one layer": (one_layer, 28),
    "bumps": (bumps, 18),
    "fingers": (fingers, 18),
    "network": (network, 29),
    "moves": (moves, 18),
    "shifted": (shifted, 20),
    "halves": (by_halves, 20),
}
ALWAYS = {"directions": {"fewest": 2, "least": -(10**9), "fraction": 1e9}}


def given(count):
    return np.cos(np.arange(float(count))) + 1.5


def differences(function, x, step=1e-6):
    rows = np.eye(len(x)) * step
    return np.stack([(function(x + r) - function(x - r)) / (2 * step) for r in rows], axis=-1)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("changes", [{}, ALWAYS], ids=["as usual", "always"])
def test_jacobians(name, changes, monkeypatch):
    take_host_for(monkeypatch, **changes)
    function, count = CASES[name]
    x = given(count)
    wanted = differences(function, x)
    for mode in (jacfwd, jacrev):
        np.testing.assert_allclose(jit(mode(function))(x), wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", sorted({*CASES} - {"fingers"}))
def test_hessians(name, monkeypatch):
    take_host_for(monkeypatch, **ALWAYS)
    function, count = CASES[name]
    x = given(count)

    def scalar(p):
        return np.sum(np.sin(function(p)) * (1 + np.cos(function(p))))

    wanted = hessian(scalar)(x)
    np.testing.assert_allclose(jit(hessian(scalar))(x), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_other_dtypes(dtype, monkeypatch):
    take_host_for(monkeypatch, **ALWAYS)
    x = given(18).astype(dtype)

    def function(p):
        return sum(p[i] * p[i + 1] * T[:4].astype(dtype) for i in range(17))

    made = jit(jacfwd(function, **({"holomorphic": True} if dtype is np.complex128 else {})))(x)
    assert made.dtype == dtype
    expected = np.zeros((4, 18), dtype)
    expected[:, :-1] += x[1:] * T[:4, None]
    expected[:, 1:] += x[:-1] * T[:4, None]
    np.testing.assert_allclose(made, expected, rtol=1e-5)


def shared(p):
    """Slices of slices, and two directions that all rows share."""
    first, both = p[:26], np.ones((9, 2)) * T[:9, None] + p[26:]
    left, right = first[:13], first.reshape(2, 13)[1][::-1]
    near = [left[i] * np.sin(right[i] * T[:9]) for i in range(13)]
    far = [left[i] * np.exp(right[i + 1] * T[:9]) for i in range(12)]
    return sum(near) * both[:, 0] + sum(far) * both[:, 1]


@pytest.mark.dear
def test_slices_of_slices():
    x = given(28)
    np.testing.assert_allclose(jit(jacfwd(shared))(x), differences(shared, x), rtol=1e-7, atol=1e-7)
    after = rewritten(leave_out_zero_blocks, directions_of(shared, 28))
    exact = {"sin", "cos", "exp", "multiply"}
    sizes = [eqn.outputs[0].aval.size for eqn in after.eqns if eqn.primitive.name in exact]
    assert np.mean(sizes) < 4 * 9


def directions_of(function, count):
    """The tangents of a function for all vectors of a basis, as a graph before this pass."""
    return optimise(trace(jacfwd(function))(given(count)))


def test_products_of_blocks():
    before = directions_of(fingers, 18)
    after = rewritten(leave_out_zero_blocks, before)

    def work(graph):
        products = [eqn for eqn in graph.eqns if eqn.primitive is dot_general]
        return sum(eqn.outputs[0].aval.size * counts(eqn).summed for eqn in products)

    assert work(after) < work(before) / 3


def test_a_term_has_tangents_for_its_own_parameters():
    after = rewritten(leave_out_zero_blocks, directions_of(bumps, 18))
    exact = {"multiply", "divide", "negative", "exp", "square", "power", "subtract"}
    assert all(
        eqn.outputs[0].aval.size <= 3 * T.size for eqn in after.eqns if eqn.primitive.name in exact
    )


def largest(function, count, names):
    """The elements of the largest result of some operations, after this pass."""
    after = rewritten(leave_out_zero_blocks, directions_of(function, count))
    return max(eqn.outputs[0].aval.size for eqn in after.eqns if eqn.primitive.name in names)


def test_elementwise_tangents_have_no_axis_of_directions():
    exact = {"multiply", "divide", "exp", "square", "add", "select"}
    assert largest(by_rows, 18, exact) <= 6 * T.size
    assert largest(one_layer, 28, exact) <= 9 * T.size
    products = {"multiply", "dot_general"}
    assert largest(lambda p: np.sin(p[:, None] - p).sum(1), 30, products) <= 30 * 30


@pytest.mark.parametrize("shift", [0, 2])
def test_tangents_that_cancel_do_so_before_they_are_multiplied(shift):
    """Of an element and itself, beside which all others are small."""

    def function(p):
        apart = p[shift:, None] - p[None]
        return np.sum(apart / (1e-14 + apart * apart), 1)

    x = np.arange(20.0)
    apart = x[shift:, None] - x + np.eye(20)[shift:]
    slopes = (np.eye(20)[shift:] - 1) / apart**2
    wanted = -slopes
    wanted[np.arange(20 - shift), np.arange(shift, 20)] = slopes.sum(1)
    np.testing.assert_allclose(jit(jacfwd(function))(x), wanted, rtol=1e-12)


FEW = {
    "few directions": (lambda p: np.stack([p[i] * T for i in range(8)]), 8),
    "all of them at once": (lambda p: np.sin(p) * MIX[0, 0], 30),
    "little work": (lambda p: p[3] * p[4] + p[5], 30),
}


@pytest.mark.parametrize("name", FEW)
def test_what_stays(name):
    before = directions_of(*FEW[name])
    assert rewritten(leave_out_zero_blocks, before) is before


def test_structural_zeros_of_other_inputs_are_zeros_beside_infinities():
    def function(p):
        return np.concatenate([np.sqrt(p[i]) * T for i in range(20)])

    x = np.zeros(20)
    found = jit(jacfwd(function))(x)
    own = np.kron(np.eye(20), np.ones((40, 1))) == 1
    assert np.all(np.isinf(found[own])) and np.all(found[~own] == 0)


def test_lanes_of_a_jacobian(monkeypatch):
    take_host_for(monkeypatch, **ALWAYS)
    xs = np.stack([given(18), given(18) + 0.1])
    wanted = np.stack([differences(bumps, x) for x in xs])
    np.testing.assert_allclose(jit(vmap(jacfwd(bumps)))(xs), wanted, rtol=1e-7, atol=1e-7)
    _, tangent = jit(lambda x, v: jvp(jacfwd(bumps), (x,), (v,)))(xs[0], xs[1])
    _, expected = jvp(jacfwd(bumps), (xs[0],), (xs[1],))
    np.testing.assert_allclose(tangent, expected, rtol=1e-9, atol=1e-9)


def test_blocks_of_reshaped_arrays():
    shapes = [(4, 6), (24,), (2, 2, 6), (4, 2, 3), (4, 1, 6), (8, 3), (1, 24, 1)]
    rng = np.random.default_rng(1)
    for _ in range(500):
        old, new = (shapes[i] for i in rng.integers(len(shapes), size=2))
        bounds = []
        for n in old:
            low = int(rng.integers(n))
            bounds.append((low, int(rng.integers(low, n)) + 1) if rng.random() < 0.6 else (0, n))
        mask = np.zeros(old, bool)
        mask[tuple(slice(a, b) for a, b in bounds)] = True
        made = _regrouped(tuple(bounds), old, new)
        where = np.argwhere(mask.reshape(new))
        box = tuple(zip(where.min(0).tolist(), (where.max(0) + 1).tolist(), strict=True))
        if made is not None:
            assert made == box and mask.sum() == np.prod([b - a for a, b in box])
        flat = _flattened(tuple(bounds), old)
        if flat is not None:
            assert mask.sum() == flat[1] - flat[0]
            assert _unflattened(flat, old) == tuple(bounds)
