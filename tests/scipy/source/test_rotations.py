"""`Rotation` and `Slerp` of traced values: SciPy's values; derivatives, also at the identity."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as R
from scipy.spatial.transform import Slerp

from functrans import hessian, jacfwd, jacrev, jit, vmap
from functrans.testing import check_grads

if not hasattr(R, "_from_raw_quat"):
    pytest.skip("this SciPy's Rotation is compiled", allow_module_level=True)

_rng = np.random.default_rng(1)
Q, QS = _rng.normal(size=4), _rng.normal(size=(4, 4))
V, VS = _rng.normal(size=3), _rng.normal(size=(4, 3))
PLAIN = R.from_rotvec(VS)
M = R.from_quat(Q).as_matrix()
TIMES, AT = [0.0, 1.0, 2.0, 3.0], np.array([0.5, 1.5])
SLERP = Slerp(TIMES, PLAIN)
EYE = np.eye(3)

CASES = {
    "from_quat": (lambda q: R.from_quat(q).as_matrix(), Q, QS),
    "constructor": (lambda q: R(q).as_matrix(), Q, QS),
    "scalar_first": (
        lambda q: R.from_quat(q, scalar_first=True).as_quat(True, scalar_first=True), Q, QS,
    ),
    "from_rotvec": (lambda v: R.from_rotvec(v).as_quat(), V, VS, 0 * V, 1e-4 * V),
    "as_rotvec": (lambda v: R.from_rotvec(v, True).as_rotvec(True), V, VS, 0 * V, 1e-4 * V),
    "from_euler": (lambda v: R.from_euler("xyz", v).as_matrix(), V, VS),
    "from_one_angle": (lambda a: R.from_euler("x", a).as_matrix(), 0.3),
    "as_euler": (lambda q: R.from_quat(q).as_euler("ZXZ"), Q, QS),
    "from_matrix": (lambda m: R.from_matrix(m).as_quat(), M, PLAIN.as_matrix(), M + 0.1),
    "from_valid_matrix": (lambda m: R.from_matrix(m, assume_valid=True).as_quat(), M),
    "mrp": (lambda v: R.from_mrp(v).as_mrp(), 0.3 * V),
    "davenport": (
        lambda v: R.from_davenport(EYE, "extrinsic", v).as_davenport(EYE, "extrinsic"), V,
    ),
    "apply": (lambda v: R.from_rotvec(v).apply(VS, inverse=True), V, VS),
    "apply_plain": (lambda v: PLAIN.apply(v), V, VS),
    "times_plain": (lambda v: (R.from_rotvec(v) * PLAIN).as_matrix(), V, VS),
    "plain_times": (lambda v: (PLAIN * R.from_rotvec(v)).as_matrix(), V, VS),
    "times": (lambda v: (R.from_rotvec(v) * R.from_euler("xyz", v)).as_matrix(), V),
    "inv": (lambda v: R.from_rotvec(v).inv().as_matrix(), V, VS),
    "pow": (lambda v: (R.from_rotvec(v) ** 0.3).as_matrix(), V, VS),
    "pow_of_plain": (lambda n: (PLAIN**n).as_matrix(), 0.4),
    "magnitude": (lambda v: R.from_rotvec(v).magnitude(), V, VS),
    "items": (lambda v: R.from_rotvec(v)[1:3].as_quat(), VS),
    "elements": (lambda v: [r.as_quat() for r in R.from_rotvec(v)][1], VS),
    "concatenate": (lambda v: R.concatenate([R.from_rotvec(v), R.from_quat(Q)]).as_quat(), V),
    "mean": (lambda v: R.from_rotvec(v).mean().as_matrix(), VS),
    "align_vectors": (lambda v: R.align_vectors(VS, v)[0].as_matrix(), VS + 0.1 * VS[::-1]),
    "slerp": (lambda v: Slerp(TIMES, R.from_rotvec(v))(AT).as_matrix(), VS),
    "slerp_at": (lambda t: Slerp(TIMES, PLAIN)(t).as_matrix(), AT, 0.5),
    "slerp_from_outside": (lambda t: SLERP(t).as_matrix(), AT),
}  # fmt: skip

EACH = [pytest.param(f, x, id=f"{k}{i}") for k, (f, *xs) in CASES.items() for i, x in enumerate(xs)]


@pytest.mark.few(20)
@pytest.mark.parametrize(("function", "x"), EACH)
def test_values_and_slopes(function, x):
    expected = function(x)
    found = jit(function)(x)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    jacobian = jacfwd(function)(x)
    np.testing.assert_allclose(jacrev(function)(x), jacobian, atol=1e-9)
    step = 1e-6
    for place in np.ndindex(np.shape(x)):
        moved = [np.array(x, float) for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        difference = np.subtract(*map(function, moved)) / (2 * step)
        np.testing.assert_allclose(jacobian[(..., *place)], difference, atol=1e-6)
    if np.ndim(x):
        np.testing.assert_allclose(vmap(function)(np.stack([x, x]))[1], expected, atol=1e-12)


def test_second_derivatives_at_the_identity():
    """The trace of a rotation is 1 + 2 cos(angle)."""
    found = hessian(lambda v: np.trace(R.from_rotvec(v).as_matrix()))(np.zeros(3))
    np.testing.assert_allclose(found, -2 * EYE, atol=1e-12)
    check_grads(lambda v: R.from_rotvec(v).as_rotvec(), (np.zeros(3),), order=2)


def test_outside_of_a_trace_rotations_are_scipys():
    jit(lambda v: R.from_rotvec(v).as_matrix())(V)
    assert type(R.from_rotvec(V).as_matrix()) is np.ndarray
    assert PLAIN.as_quat().shape == (4, 4)


def test_what_is_no_rotation_is_refused_in_scipys_words():
    with pytest.raises(ValueError, match="zero norm quaternions"):
        jacfwd(lambda q: R.from_quat(q).as_matrix())(np.zeros(4))
    with pytest.raises(ValueError, match="Non-positive determinant"):
        jacfwd(lambda m: R.from_matrix(m).as_quat())(-M)
    assert np.isnan(jit(lambda q: R.from_quat(q).as_matrix())(np.zeros(4))).all()


def test_rotations_are_in_double_precision():
    single = np.array([0.1, 0.2, 0.3, 0.9], np.float32)
    found = jit(lambda q: R.from_quat(q).as_matrix())(single)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, R.from_quat(single).as_matrix(), rtol=1e-14)


@pytest.mark.parametrize("shape", [(4,), (5, 4)])
@pytest.mark.parametrize("sides", [{"left"}, {"right"}, {"left", "right"}])
def test_reduction_by_groups(shape, sides):
    """SciPy's formulas for other array libraries take ones for the identity."""
    quat = np.random.default_rng(4).normal(size=shape)
    groups = {side: R.create_group("D2") for side in sides}

    def reduced(q):
        rotation, *places = R.from_quat(q).reduce(**groups, return_indices=True)
        return rotation.as_matrix(), [place for place in places if place is not None]

    expected, places = reduced(quat)
    found, found_places = jit(reduced)(quat)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    for one, other in zip(found_places, places, strict=True):
        np.testing.assert_array_equal(one, other)
