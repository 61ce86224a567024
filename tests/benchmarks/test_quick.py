"""Every benchmark runs, and its compiled results are the eager ones."""

import numpy as np
import pytest

from tests.benchmarks.adjoint import compare
from tests.benchmarks.one import functrans_library
from tests.benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
def test_it_runs(name):
    library, compiled, flat = functrans_library()
    job = WORKLOADS[name][0](library)
    results = flat(compiled(job.function)(*job.arguments))
    assert results
    assert all(np.isfinite(result).all() for result in results)


def test_the_adjoint_by_hand_agrees():
    hand, found = compare(rounds=1)
    assert hand > 0
    assert found > 0
