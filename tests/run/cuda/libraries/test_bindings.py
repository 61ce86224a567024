"""The bindings: the message if they are missing, and the recorded signatures."""

import builtins
import re
import subprocess
import sys

import pytest

from functrans.errors import DeviceError
from functrans.run.cuda.libraries import bindings as module
from functrans.run.cuda.libraries.bindings import checked, first_call
from tests.run.cuda.libraries.memory import HEURISTIC
from tests.run.cuda.libraries.record import record, written

WORDS = (
    " is not installed: on a GPU, matrix products, linear algebra and Fourier transforms are done "
    'by cuBLAS, cuSOLVER and cuFFT. They come with `pip install "functrans[cuda-linalg]"`.'
)


@pytest.mark.parametrize(("package", "name"), [("nvmath", "nvmath"), ("cuda", "cuda")])
def test_a_package_that_is_missing(package, name, monkeypatch):
    real = builtins.__import__

    def without(wanted, *rest):
        if wanted.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(wanted, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DeviceError, match=f"^{re.escape(f'the package {name}{WORDS}')}$"):
        module.bindings.__wrapped__()


def test_a_library_that_is_missing():
    class DynamicLibNotFoundError(RuntimeError):
        """As cuda.pathfinder's."""

    def create():
        raise DynamicLibNotFoundError("Failure finding libcublas")

    with pytest.raises(DeviceError, match=f"^{re.escape(f'the library cuBLAS{WORDS}')}$"):
        first_call("cuBLAS", create)


def test_other_errors_of_a_library_are_its_own():
    def create():
        raise RuntimeError("not initialised")

    with pytest.raises(RuntimeError, match=r"^not initialised$"):
        first_call("cuBLAS", create)


def test_what_the_driver_answers():
    assert checked((0,)) is None
    assert checked((0, 5)) == 5
    with pytest.raises(DeviceError, match=r"^the CUDA driver answered 700$"):
        checked((700, 5))


@pytest.mark.full
def test_nothing_is_loaded_before_something_is_called():
    code = (
        "import sys, functrans.run.cuda.libraries.table\n"
        "print([x for x in sys.modules if x.split('.')[0] in ('cuda', 'nvmath')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- the packages themselves ---------------------------------------------------------------------


def test_nvmath_has_the_signatures_that_the_stub_checks():
    pytest.importorskip("nvmath", reason="nvmath-python is not installed")
    assert record() == written()


def test_the_record_has_the_layout_of_what_heuristics_give():
    assert written()["heuristic"] == repr(HEURISTIC.descr)


def test_the_driver_has_the_functions_that_the_stub_has():
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    for name, parameters in {
        "cuCtxGetCurrent": "", "cuCtxPushCurrent": "ctx", "cuCtxPopCurrent": "",
        "cuMemsetD32Async": "dstDevice, unsigned int ui, size_t N, hStream",
        "cuMemsetD2D32Async":
            "dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, hStream",
        "cuMemcpyDtoDAsync": "dstDevice, srcDevice, size_t ByteCount, hStream",
        "cuMemcpy2DAsync": "CUDA_MEMCPY2D pCopy: Optional[CUDA_MEMCPY2D], hStream",
    }.items():  # fmt: skip
        assert getattr(driver, name).__doc__.split("\n")[0] == f"{name}({parameters})"
    one = driver.CUDA_MEMCPY2D()
    one.srcMemoryType = one.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    one.srcDevice, one.srcPitch, one.dstDevice, one.dstPitch = 4096, 12, 8192, 16
    one.WidthInBytes, one.Height = 8, 3
    assert int(one.srcDevice) == 4096 and one.dstPitch == 16
    assert not driver.CUresult.CUDA_SUCCESS and int(driver.CUcontext(5)) == 5
