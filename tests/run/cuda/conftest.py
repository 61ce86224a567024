"""GPUs that are none, for the tests of this folder."""

import gc

import pytest

from tests.run.cuda.stub import stubs


@pytest.fixture
def gpu():
    """A stub in place of the machine's GPU; what was not freed at the end fails the test."""
    with stubs() as (one,):
        yield one
        gc.collect()
        one.close()


@pytest.fixture
def gpus():
    """Two of them."""
    with stubs(1 << 30, 1 << 30) as both:
        yield both
        gc.collect()
        for each in both:
            each.close()
