"""Messages about missing devices; tests/run/cuda/test_core has those of the driver."""

import inspect
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import functrans
import functrans.scipy.linalg
from functrans.errors import DeviceError, DeviceMemoryError, MutationError, UnsupportedNumPyError
from functrans.run.cuda import core, driver
from tests.errors.words import message_of
from tests.run.cuda.stub import Stub

X = np.ones(3)


def said(device):
    return message_of(DeviceError, lambda: functrans.device_put(X, device))


@pytest.fixture
def nothing_opened(monkeypatch):
    monkeypatch.setattr(driver, "_opened", {})


def test_packages_are_missing(nothing_opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    assert said("cuda:0") == (
        'device="cuda:0" needs the package cuda-core, which is not installed here: '
        'pip install "functrans[cuda]"'
    )
    assert functrans.devices() == ("cpu",)


def no_library(_):
    raise RuntimeError("no such file")


@pytest.mark.parametrize(
    ("initialise", "words"),
    [
        (
            no_library,
            'device="cuda:1" needs NVIDIA\'s driver, and its library (libcuda) is not on this '
            "machine: install the driver for your GPU, or use a machine that has one",
        ),
        (
            lambda _: (100,),
            'device="cuda:1": NVIDIA\'s driver finds no GPU on this machine '
            "(CUDA_VISIBLE_DEVICES is '-1')",
        ),
    ],
)
def test_the_driver_or_a_gpu_is_missing(nothing_opened, monkeypatch, initialise, words):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    codes = SimpleNamespace(
        CUDA_ERROR_NO_DEVICE=100, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH=803, CUDA_ERROR_UNKNOWN=999
    )
    api = SimpleNamespace(cuInit=initialise, CUresult=codes)
    monkeypatch.setattr(core, "_api", lambda device: api)
    assert said("cuda:1") == words


def test_a_gpu_of_that_number_is_missing():
    with driver.using(Stub(0)):
        assert said("cuda:1") == 'there is no device "cuda:1" here: there is "cuda:0"'
    with driver.using(Stub(0), Stub(1)):
        assert said("cuda:7") == ('there is no device "cuda:7" here: there are "cuda:0", "cuda:1"')
    with driver.using():
        assert said("cuda") == 'there is no device "cuda" here: there is no GPU'


def test_what_is_no_device():
    assert said("gpu") == 'a device is "cuda", "cuda:0", "cuda:1", ... or "cpu", not \'gpu\''


# ---- jit, and operations -------------------------------------------------------------------------


def pair(x, y):
    return x + y


def test_arrays_and_programs_on_two_devices():
    with driver.using(Stub(0), Stub(1)):
        first, second = (functrans.device_put(X, f"cuda:{n}") for n in (0, 1))
        assert message_of(DeviceError, lambda: functrans.jit(pair)(first, second)) == (
            "argument 1 ('y') of pair is on cuda:1, but the program runs on cuda:0, since argument "
            "0 ('x') of pair is there: put it there, functrans.device_put(x, \"cuda:0\")"
        )
        chosen = functrans.jit(pair, device="cuda:1")
        assert message_of(DeviceError, lambda: chosen(first, X)) == (
            "argument 0 ('x') of pair is on cuda:0, but the program runs on cuda:1, since the "
            'function is compiled for it: put it there, functrans.device_put(x, "cuda:1")'
        )
        outside = functrans.jit(lambda x: x + second)
        assert message_of(DeviceError, lambda: outside(first)) == (
            "an array that is used from outside is on cuda:1, but the program runs on cuda:0, "
            "since argument 0 ('x') of <lambda> is there: put it there, "
            'functrans.device_put(x, "cuda:0")'
        )
        words = message_of(DeviceError, lambda: first + second)
        assert words.startswith("np.add at test_devices.py:")
        assert words.endswith(
            "its operands are on cuda:0 and on cuda:1: put them on one device, "
            'x.to_device("cuda:0")'
        )


def test_jit_for_a_device():
    with driver.using(Stub(0)):
        assert message_of(
            ValueError, lambda: functrans.jit(pair, device="cuda", backend="numba")
        ) == ("jit(device=...) has a compiler of its own: leave out backend='numba'")
        assert message_of(DeviceError, lambda: functrans.jit(pair, device="tpu")) == (
            'a device is "cuda", "cuda:0", "cuda:1", ... or "cpu", not \'tpu\''
        )
    with driver.using():
        assert message_of(DeviceError, lambda: functrans.jit(pair, device="cuda")) == (
            'there is no device "cuda" here: there is no GPU'
        )


def test_what_has_no_kernel():
    with driver.using(Stub(0)):
        x = functrans.device_put(np.eye(3))
        words = message_of(DeviceError, lambda: functrans.jit(schur)(x))
        assert words.startswith("schur has no kernel for a GPU at test_devices.py:")
        assert words.endswith(
            ": compute it on the host, or set functrans.config.cuda_fallback = "
            '"host" to have it copied there and back'
        )


def schur_again(x):
    return functrans.scipy.linalg.schur(x)[0]


def schur_in_a_loop(x):
    def step(carry, _):
        carry = carry + 1.0
        return functrans.scipy.linalg.schur(carry)[0], None

    return functrans.lax.scan(step, x, None, length=3)[0]


def line_of(function, text):
    """The number of the line of a function that begins with some text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if line.strip().startswith(text))


@pytest.mark.parametrize("run", [functrans.jit, lambda f: f], ids=["jit", "eager"])
def test_the_line_without_a_kernel_is_that_of_the_call_at_hand(run):
    """Though what was traced, or optimised, is kept for calls that are alike."""
    with driver.using(Stub(0)):
        x = functrans.device_put(np.eye(3))
        for function in (schur, schur_again, schur):
            words = message_of(DeviceError, lambda f=function: run(f)(x))
            place = f"test_devices.py:{line_of(function, 'return')} ({function.__name__})"
            assert words.startswith(f"schur has no kernel for a GPU at {place}")


def test_what_has_no_kernel_inside_of_a_loop():
    with driver.using(Stub(0)):
        x = functrans.device_put(np.eye(3))
        words = message_of(DeviceError, lambda: functrans.jit(schur_in_a_loop)(x))
        line = line_of(schur_in_a_loop, "return functrans.scipy")
        assert words.startswith(
            f"schur, inside of scan, has no kernel for a GPU at test_devices.py:{line} "
        )


@pytest.mark.dear
def test_a_loop_that_a_limit_gives_a_kernel():
    def halved(x, max_steps=None):
        def body(v):
            return v * np.cos(v)

        return functrans.lax.while_loop(lambda v: v > 1.0, body, x, max_steps=max_steps)

    with driver.using(Stub(0)):
        x = functrans.device_put(np.array(9.0))
        words = message_of(DeviceError, lambda: functrans.jit(functrans.grad(halved))(x))
        assert words.startswith("while_loop has no kernel for a GPU at test_devices.py:")
        assert words.endswith(
            ": give its while_loop max_steps, or compute it on the host, or set "
            'functrans.config.cuda_fallback = "host" to have it copied there and back'
        )
        functrans.jit(functrans.grad(lambda x: halved(x, max_steps=40)))(x)


def schur(x):
    return functrans.scipy.linalg.schur(x)[0]


def test_what_would_change_an_array_in_place():
    with driver.using(Stub(0)):
        x = functrans.device_put(X)

        def store():
            x[0] = 1.0

        words = message_of(MutationError, store)
        assert words.startswith("x[i] = v at test_devices.py:")
        assert words.endswith(
            ": an array on a device is a value, and nothing changes it in place: write "
            "x = x.at[i].set(v)"
        )
        words = message_of(MutationError, lambda: np.sin(x, out=x))
        assert words.startswith("np.sin(..., out=...) at test_devices.py:")
        assert words.endswith(": write y = np.sin(...)")
        words = message_of(MutationError, lambda: x.sort())
        assert words.endswith(
            ": write x = x.at[i].set(v), or call what gives a new array, as np.sort(x) does"
        )


def test_what_depends_on_the_numbers():
    with driver.using(Stub(0)):
        x = functrans.device_put(X)
        words = message_of(UnsupportedNumPyError, lambda: np.nonzero(x))
        assert words.startswith("np.nonzero at test_devices.py:")
        assert words.endswith(
            " has to look at the numbers of a device array, on which its result's shape or "
            "Python's way depends: copy it by np.asarray(x), or set "
            'functrans.config.cuda_fallback = "host" to have such arrays copied there and back'
        )


def test_no_room():
    with driver.using(Stub(0, 1 << 20)):
        words = message_of(DeviceMemoryError, lambda: functrans.device_put(np.zeros(1 << 20)))
        assert words == (
            "cuda:0 has no room for 8.389 MB: 1.049 MB of 1.049 MB are free, and 0 bytes are in "
            "arrays of this process: delete arrays that are no longer needed, or compute on fewer "
            "rows at a time"
        )
