"""Compilation of kernels to cubins without a GPU, and the disk cache."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import functrans
from functrans import config, jit
from functrans.errors import DeviceError
from functrans.run.cuda import compile as compiling
from functrans.run.cuda import nvjitlink, nvvm
from functrans.run.cuda.compile import Request, compile_cubin, function_name, key_of
from tests.emit.cuda.special import needs_compiler

SCALE = """def scale(flag, x, out, n):
    i = block() * threads() + thread()
    if i < n:
        out[i] = read(x, i) * np.float32({factor})
"""
SIGNATURE = ("int64*", "float32*", "float32*", "int64")
ELF = b"\x7fELF"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache on disk, and nothing in memory."""
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    compiling._compiled.cache_clear()
    yield tmp_path / "cache"
    compiling._compiled.cache_clear()


@pytest.fixture
def never(monkeypatch):
    """After this is called, nothing can be compiled any more."""

    def forbid():
        compiling._compiled.cache_clear()
        monkeypatch.setattr(compiling, "_intermediate", None)

    return forbid


@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_a_kernel_is_compiled_for_an_architecture(architecture):
    cubin = compile_cubin(SCALE.format(factor=2), SIGNATURE, architecture, threads=256)
    assert cubin.name == "scale"
    assert cubin.code.startswith(ELF)
    assert b"scale" in cubin.code
    assert f".target {architecture}" in cubin.ptx
    assert ".visible .entry scale(" in cubin.ptx
    assert ".maxntid 256" in cubin.ptx
    assert 4 <= cubin.resources.registers <= 32
    assert cubin.resources[1:] == (0, 0, 0, 0)


@needs_compiler
def test_shared_and_local_memory_are_counted():
    text = """def kernel(flag, x, out, n):
    tile = shared("float64", 128)
    row = local("float64", 50)
    for i in range(50):
        row[i] = x[i]
    tile[thread()] = row[n]
    barrier()
    out[thread()] = tile[127 - thread()]
"""
    resources = compile_cubin(text, ("int64*", "float64*", "float64*", "int64")).resources
    assert resources.shared == 1024
    assert resources.stack >= 400
    assert resources.spills == 0


@needs_compiler
def test_registers_are_fewer_in_large_blocks_and_spilled():
    numbers = range(90)
    loads = "".join(f"    v{i} = x[n + {i}]\n" for i in numbers)
    stores = "".join(f"    out[n + {i}] = v{i} * factor\n" for i in numbers)
    text = f"def kernel(flag, x, out, n):\n{loads}    barrier()\n    factor = out[n]\n{stores}"
    free = compile_cubin(text, SIGNATURE)
    bounded = compile_cubin(text, SIGNATURE, threads=1024)
    assert free.resources.registers > 64
    assert free.resources.spills == 0
    assert bounded.resources.registers <= 64
    assert bounded.resources.spills > 0


@needs_compiler
def test_registers_are_fewer_where_blocks_shall_have_room():
    text = SCALE.format(factor=2)
    assert ".minnctapersm" not in compile_cubin(text, SIGNATURE, threads=256).ptx
    assert ".minnctapersm 2" in compile_cubin(text, SIGNATURE, threads=256, blocks=2).ptx


@needs_compiler
def test_the_same_text_is_compiled_once(folder, never):
    first = compile_cubin(SCALE.format(factor=3), SIGNATURE)
    assert compile_cubin(SCALE.format(factor=3), SIGNATURE) is first
    never()
    again = compile_cubin(SCALE.format(factor=3), SIGNATURE)
    assert again is not first
    assert again == first
    with pytest.raises(TypeError):  # another one would have to be compiled
        compile_cubin(SCALE.format(factor=4), SIGNATURE)


@needs_compiler
@pytest.mark.parametrize("damage", [b"", b"\0", b"not a cubin at all"])
def test_a_damaged_file_is_not_looked_at(folder, damage):
    first = compile_cubin(SCALE.format(factor=5), SIGNATURE)
    [path] = folder.iterdir()
    content = path.read_bytes()
    path.write_bytes(damage + content[len(damage) :] if damage else b"")
    compiling._compiled.cache_clear()
    assert compile_cubin(SCALE.format(factor=5), SIGNATURE) == first
    assert path.read_bytes() == content  # it was put there again


def test_keys_differ_in_whatever_code_follows_from():
    text = SCALE.format(factor=2)
    keys = {
        key_of(Request(text, SIGNATURE, "sm_90")),
        key_of(Request(text.replace("i <", "i <="), SIGNATURE, "sm_90")),
        key_of(Request(text, ("int64*", "float32*", "float64*", "int64"), "sm_90")),
        key_of(Request(text, SIGNATURE, "sm_80")),
        key_of(Request(text, SIGNATURE, "sm_90", 128)),
        key_of(Request(text, SIGNATURE, "sm_90", backend="numba")),
    }
    assert len(keys) == 6
    assert key_of(Request(text, SIGNATURE, "sm_90")) in keys


@pytest.mark.full
@needs_compiler
def test_another_process_compiles_to_the_same():
    # what is kept must not depend on what else was compiled: here it was other kernels
    here = compile_cubin(SCALE.format(factor=2), SIGNATURE)
    script = (
        "import sys\n"
        "from functrans.run.cuda.compile import compile_cubin\n"
        f"cubin = compile_cubin({SCALE.format(factor=2)!r}, {SIGNATURE!r})\n"
        "sys.stdout.buffer.write(cubin.code)\n"
    )
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert there.stdout == here.code


@needs_compiler
def test_threads_compile_at_the_same_time(folder):
    texts = [SCALE.format(factor=factor) for factor in range(10, 16)] * 2
    with ThreadPoolExecutor(4) as pool:
        cubins = list(pool.map(lambda text: compile_cubin(text, SIGNATURE), texts))
    assert cubins[:6] == cubins[6:]
    assert len({cubin.code for cubin in cubins}) == 6
    assert len(list(folder.iterdir())) == 6


@pytest.mark.dear
@needs_compiler
def test_the_kernels_of_a_program_are_compiled_side_by_side(monkeypatch):
    """The first two of them wait for one another."""
    monkeypatch.setattr(config, "threads", 2)
    together, first, cubin = threading.Barrier(2), [1, 2], nvjitlink.cubin

    def waiting(*given):
        if first:
            first.pop()
            together.wait(60)
        return cubin(*given)

    monkeypatch.setattr(nvjitlink, "cubin", waiting)
    functrans.clear_caches()
    x = np.ones((1 << 12, 40), np.float32)
    lowered = jit(lambda x: (np.sort(x, axis=0), np.cumsum(x, axis=1))).lower(x, device="cuda")
    assert len(lowered.resources().kernels) >= 2
    assert not first


def test_an_architecture_has_a_name():
    with pytest.raises(ValueError, match=r"'sm_90', not '9\.0'"):
        compile_cubin(SCALE.format(factor=2), SIGNATURE, "9.0")


def test_older_gpus_are_refused_in_words():
    with pytest.raises(DeviceError) as error:
        compile_cubin(SCALE.format(factor=2), SIGNATURE, "sm_70")
    assert str(error.value) == (
        "kernels are not compiled for GPUs of architecture sm_70: expected sm_75 (Turing) or "
        "newer; use another GPU, or the CPU"
    )


@needs_compiler
def test_gpus_without_the_tensor_cores_that_are_used_multiply_otherwise():
    x = np.ones((256, 256), np.float16)
    ptx = [
        jit(lambda x, y: x @ y).lower(x, x, device="cuda", architecture=each).ptx()
        for each in ("sm_75", "sm_80")
    ]
    assert ["mma." in each for each in ptx] == [False, True]


def test_a_source_defines_one_function():
    assert function_name("def f(x):\n    pass\n") == "f"
    with pytest.raises(ValueError, match="one function, not 2"):
        function_name("def f(x):\n    pass\ndef g(x):\n    pass\n")


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(compiling, "_is_installed", lambda module: module != "cuda.bindings.nvvm")
    with pytest.raises(DeviceError) as error:
        compile_cubin(SCALE.format(factor=21), SIGNATURE)
    assert str(error.value) == (
        "kernels for CUDA are compiled with cuda-bindings, not installed here: "
        'pip install "functrans[cuda]"'
    )


@needs_compiler
def test_a_missing_library_of_functions_says_what_to_install(monkeypatch):
    import cuda.pathfinder

    def nowhere(name):
        raise cuda.pathfinder.BitcodeLibNotFoundError(name)

    monkeypatch.setattr(cuda.pathfinder, "find_bitcode_lib", nowhere)
    with pytest.raises(DeviceError) as error:
        nvvm._library.__wrapped__()
    assert str(error.value) == (
        "kernels for CUDA are compiled with NVIDIA's libdevice, which is not on this machine: "
        'pip install "functrans[cuda]", or have CUDA_HOME say where the CUDA toolkit is'
    )


@needs_compiler
def test_a_missing_compiler_says_what_to_install(monkeypatch):
    import cuda.bindings.nvjitlink
    import cuda.pathfinder

    def nowhere():
        raise cuda.pathfinder.DynamicLibNotFoundError("nvJitLink")

    monkeypatch.setattr(cuda.bindings.nvjitlink, "version", nowhere)
    with pytest.raises(DeviceError, match="with NVIDIA's nvJitLink, which is not on this machine"):
        nvjitlink._bindings.__wrapped__()


def test_numba_is_missed_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(compiling, "_is_installed", lambda module: module != "numba_cuda")
    assert not compiling.missing()
    monkeypatch.setattr(config, "backend", "numba")
    with pytest.raises(DeviceError, match="compiled with numba-cuda, not installed here"):
        compile_cubin(SCALE.format(factor=22), SIGNATURE)


def test_a_package_that_is_not_there_is_found_out():
    assert compiling._is_installed("functrans.run")
    assert not compiling._is_installed("functrans.gone")
    assert not compiling._is_installed("gone_entirely.below")
