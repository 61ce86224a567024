"""A plugin of pytest: everything runs as on a Python whose objects are laid out otherwise."""

import pytest

from functrans.run.call import layouts


@pytest.fixture(autouse=True, scope="session")
def portable():
    layouts.hold.cache_clear()
    before, layouts.hold = layouts.hold, lambda: False
    yield
    layouts.hold = before
