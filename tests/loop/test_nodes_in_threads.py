"""Hash consing: equal nodes are one object, also when several threads create them."""

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from functrans.loop import scalar
from functrans.loop.scalar import Scalar

FLOAT = np.dtype(np.float64)
THREADS = 6
NODES = 3000


@pytest.fixture
def restless():
    """Python takes its lock away from a thread as often as it can."""
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(old)


def test_threads_that_make_the_same_nodes_get_the_same_objects(restless):
    barrier = threading.Barrier(THREADS)

    def make(_):
        barrier.wait()
        return [Scalar("const", (), FLOAT, ("hammer", i)) for i in range(NODES)]

    with ThreadPoolExecutor(THREADS) as pool:
        first, *others = pool.map(make, range(THREADS))
    for other in others:
        assert all(map(lambda one, same: one is same, first, other))


@pytest.mark.full
def test_a_node_that_lives_is_in_the_table_whatever_dies_meanwhile(restless):
    """Each thread makes nodes that others let go at this moment, and must find its own again."""
    barrier = threading.Barrier(THREADS)

    def make(_):
        barrier.wait()
        lost = 0
        for i in range(20 * NODES):
            one = Scalar("const", (), FLOAT, ("dying", i % 3))
            lost += Scalar("const", (), FLOAT, ("dying", i % 3)) is not one
        return lost

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(make, range(THREADS))) == 0


@pytest.mark.full
def test_nodes_that_are_gone_leave_nothing():
    key = ("const", (), FLOAT, "a node of this test")
    node = Scalar(*key)
    assert scalar._nodes[key]() is node
    del node
    gc.collect()
    assert key not in scalar._nodes
