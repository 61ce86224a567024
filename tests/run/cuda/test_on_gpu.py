"""The driver on a real GPU: ``pytest -m gpu``."""

import numpy as np
import pytest

import functrans
from functrans.run.cuda.driver import count, driver
from functrans.run.cuda.foreign import from_foreign
from tests.run.cuda import scenarios

pytestmark = pytest.mark.gpu


def compiled(architecture):
    """The kernel `fill`, compiled from CUDA C++."""
    core = pytest.importorskip("cuda.core", reason="needs the packages of functrans[cuda]")
    program = core.Program(scenarios.FILL, "c++", core.ProgramOptions(arch=architecture))
    return program.compile("cubin").code


@pytest.fixture(scope="module")
def there():
    return driver()


@pytest.fixture(scope="module")
def cubin(there):
    return compiled(there.properties.architecture)


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS, ids=lambda each: each.__name__)
def test_a_scenario(there, cubin, scenario):
    scenario(there, cubin)


def test_a_real_gpu_says_what_it_is(there):
    about = there.properties
    assert about.name and about.architecture.startswith("sm_")
    assert about.multiprocessors > 0
    assert about.threads == 1024
    assert about.shared_bytes >= 48 << 10
    state = there.memory_state()
    assert 0 < state.free <= state.total


def test_two_gpus():
    if count() < 2:
        pytest.skip("needs two GPUs")
    scenarios.two_gpus(driver("cuda:0"), driver("cuda:1"))


def test_a_large_array_goes_there_and_comes_back():
    x = np.random.default_rng(0).normal(size=30_000_000)
    np.testing.assert_array_equal(np.asarray(functrans.device_put(x)), x)


def test_work_goes_on_while_python_does(there, cubin):
    """Launches do not wait: the host is done with many before the device is."""
    x = scenarios.words(there, 1 << 26)
    kernel, stream = there.load(cubin, "fill"), there.stream()
    for value in range(200):
        there.launch(kernel, 132, 1024, (x.memory.address, x.size, value), stream)
    assert not there.happened(there.record(stream))
    assert np.unique(np.asarray(x)).tolist() == [199]


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)])
@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f4", "f8", "c8"])
def test_pytorch_and_back(shape, dtype):
    torch = pytest.importorskip("torch")
    x = functrans.device_put(np.ones(shape, dtype))
    tensor = torch.from_dlpack(x)
    assert tensor.is_cuda and tuple(tensor.shape) == shape
    back = from_foreign(tensor + tensor if dtype != "?" else tensor | tensor)
    expected = np.ones(shape, dtype) * (2 if dtype != "?" else True)
    np.testing.assert_array_equal(np.asarray(back), expected)
    assert back.dtype == np.dtype(dtype)
    del x, tensor
    np.testing.assert_array_equal(np.asarray(back), expected)


@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f4", "f8", "c8"])
def test_cupy_and_back(dtype):
    cupy = pytest.importorskip("cupy")
    x = functrans.device_put(np.ones((3, 4), dtype))
    for taken in (cupy.from_dlpack(x), cupy.asarray(x)):
        assert taken.data.ptr == x.memory.address
        back = from_foreign(taken)
        assert back.memory.address == x.memory.address
        np.testing.assert_array_equal(np.asarray(back), np.ones((3, 4), dtype))
