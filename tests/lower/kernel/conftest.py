"""A machine for tests of long loops."""

import pytest

from functrans import config
from tests.targets import take_host_for


@pytest.fixture
def low(monkeypatch):
    """A machine for which each loop is long."""
    take_host_for(
        monkeypatch,
        distribution={"least_work": 0},
        carries={"longest_step": 0},
        forms={"least_work_in_loops": 0, "fewest_rows": 1},
        batch_partition={"least_work": 1 << 60},
    )
    monkeypatch.setattr(config, "parallel_threshold", 0)
