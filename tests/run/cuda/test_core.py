"""The driver on the real cuda.core and cuda.bindings, with a stub of libcuda that needs no GPU."""

import pytest

from tests.run.cuda.on_libcuda import NAMES, in_a_process


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return in_a_process(tmp_path_factory.mktemp("libcuda"))


@pytest.mark.parametrize("name", NAMES)
def test_on_our_libcuda(outcomes, name):
    assert outcomes[name] is None, outcomes[name]
