"""`functrans.random` against recorded results of `jax.random`, and against JAX if installed.

JAX runs with 64-bit types and otherwise default settings (``jax_threefry_partitionable``).
"""

import numpy as np
import pytest

from functrans import random
from tests.random.calls import CLOSE, EXACT, evaluate, key_of, recorded

RECORDED = recorded()


def close(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=3e-15, atol=1e-15)


def test_each_call_has_its_numbers():
    assert list(RECORDED) == EXACT + CLOSE


@pytest.mark.parametrize("call", EXACT)
def test_equal_in_every_bit(call):
    found, expected = evaluate(call, random, key_of(random)), RECORDED[call]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.few(12)
@pytest.mark.parametrize("call", CLOSE)
def test_equal_up_to_rounding(call):
    close(evaluate(call, random, key_of(random)), RECORDED[call])


@pytest.mark.dear
def test_bfloat16():
    """As JAX gave them once, by their bits."""
    narrow = pytest.importorskip("ml_dtypes").bfloat16
    key, shape = key_of(random), (6,)
    for found, bits in (
        (random.uniform(key, shape, narrow), [16162, 16216, 16248, 16214, 15776, 16216]),
        (random.uniform(key, shape, narrow, -0.3, 5.7), [16480, 16536, 16560, 16534, 15916, 16536]),
        (random.normal(key, shape, narrow), [16048, 16258, 16370, 16252, 49076, 16258]),
    ):
        assert found.dtype == narrow
        assert found.view(np.uint16).tolist() == bits


# -- JAX itself ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jax():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    assert jax.config.jax_threefry_partitionable
    return jax


SEEDS = (0, 7, 123456789, -5)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (17,), (3, 100)])
def test_uniform_and_normal(jax, shape, dtype):
    for seed in SEEDS:
        ours, theirs = random.key(seed), jax.random.PRNGKey(seed)
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(
            random.uniform(ours, shape, dtype), jax.random.uniform(theirs, shape, dtype)
        )
        numbers = random.normal(ours, shape, dtype), jax.random.normal(theirs, shape, dtype)
        units = 0 if dtype == "float32" else 3
        np.testing.assert_array_max_ulp(*map(np.asarray, numbers), maxulp=units)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers(jax, dtype):
    for seed in SEEDS:
        ours, theirs = random.key(seed), jax.random.PRNGKey(seed)
        for low, high in ((0, 10), (3, 100), (0, 2**31 - 1)):
            np.testing.assert_array_equal(
                random.randint(ours, (300,), low, high, dtype),
                jax.random.randint(theirs, (300,), low, high, dtype),
            )
        np.testing.assert_array_equal(
            random.permutation(ours, 300), jax.random.permutation(theirs, 300)
        )


@pytest.mark.slow
def test_every_float32(jax):
    """All numbers that can come out, as one sees by drawing for a long time."""
    ours, theirs = random.key(1), jax.random.PRNGKey(1)
    shape = (2**22,)
    np.testing.assert_array_equal(
        random.normal(ours, shape, np.float32), jax.random.normal(theirs, shape, np.float32)
    )
