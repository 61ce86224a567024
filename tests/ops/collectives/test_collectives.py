"""Every collective in the registry: its transpose over all lanes, and an axis of one lane."""

import numpy as np
import pytest

from functrans import lax, vmap
from functrans.errors import AxesError, ShapeError
from functrans.ir.primitive import registry
from functrans.ir.types import Aval
from functrans.ops import import_all
from functrans.trace.axes import along

import_all()
COLLECTIVES = [p for p in registry.values() if p.collective is not None]
LINEAR = [p for p in COLLECTIVES if p.linear]
MORE = {"ppermute": {"moves": ((0, 2), (1, 0))}}
MORE |= {name: {"axis": 1} for name in ("all_gather", "own_part", "psum_scatter", "all_to_all")}
RNG = np.random.default_rng(3)
N = 3


def over_lanes(primitive, rule, *values):
    """A rule of a collective, applied to what each lane has."""

    def lane_s(*own):
        axis = along("i", "a test")
        return rule(*own, axis.lane, **axis.params, **MORE.get(primitive.name, {}))

    return vmap(lane_s, axis_name="i")(*values)


@pytest.mark.parametrize("primitive", LINEAR, ids=repr)
def test_the_transpose_is_the_adjoint(primitive):
    """``sum_i <c_i, (A t)_i> = sum_i <(A* c)_i, t_i>``; one value for all lanes counts once."""
    from_all = primitive.name in ("pvary", "own_part")
    t = RNG.normal(size=(N, 2, N))
    if from_all:
        t[:] = t[0]
    out = over_lanes(primitive, primitive, t)
    c = RNG.normal(size=out.shape)
    # a value that is the same in all lanes is one value, and so is its cotangent
    into_all = primitive.collective == "invariant"
    if into_all:
        c[:] = c[0]

    def back(ct, lane, **params):
        return primitive.transpose(ct, Aval(t.shape[1:], t.dtype), lane, **params)[0]

    pulled = over_lanes(primitive, back, c)
    left = (c * out)[0].sum() if into_all else (c * out).sum()
    right = (pulled * t)[0].sum() if from_all else (pulled * t).sum()
    np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("primitive", COLLECTIVES, ids=repr)
def test_the_type_is_that_of_the_result(primitive):
    x = RNG.normal(size=(N, 2, N))
    out = over_lanes(primitive, primitive, x)
    params = {"name": "i", "size": N, "engine": None, **MORE.get(primitive.name, {})}
    lane = Aval((), np.int64)
    assert primitive.infer(Aval(x.shape[1:], x.dtype), lane, **params).shape == out.shape[1:]
    equal = all(np.array_equal(out[0], other) for other in out[1:])
    assert equal == (primitive.collective == "invariant")


@pytest.mark.parametrize("primitive", COLLECTIVES, ids=repr)
def test_one_lane(primitive):
    x = RNG.normal(size=(2, 1))
    moves = {"moves": ((0, 0),)} if primitive.name == "ppermute" else None
    params = {"name": "i", "size": 1, "engine": None, **(moves or MORE.get(primitive.name, {}))}
    alone = primitive.numpy(x, np.int64(0), **params)
    mapped = vmap(lambda x: primitive(x, lax.axis_index("i"), **params), axis_name="i")(x[None])[0]
    np.testing.assert_array_equal(alone, mapped)
    params["size"] = 2
    if primitive.name == "pvary":  # which waits for no other lane
        np.testing.assert_array_equal(primitive.numpy(x, np.int64(0), **params), x)
        return
    with pytest.raises(AxesError, match=f"{primitive.name} along 'i' was met by one lane alone"):
        primitive.numpy(x, np.int64(0), **params)


def test_parts_that_are_not_there():
    params = {"name": "i", "size": 4, "engine": None, "axis": 0}
    with pytest.raises(ShapeError, match="has no axis 0 with one place for each of 4 lanes"):
        registry["psum_scatter"].infer(Aval((3,), float), Aval((), np.int64), **params)
