"""A pytest plugin that simulates a Python with another object layout, without native calls."""

import pytest

from functrans.run.call import layouts


@pytest.fixture(autouse=True, scope="session")
def portable():
    before, layouts.hold = layouts.hold, lambda: False
    yield
    layouts.hold = before
