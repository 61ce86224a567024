"""What messages say about devices that are not there. (Of the driver: tests/run/cuda/test_core.)"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import functrans
from functrans.errors import DeviceError
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
