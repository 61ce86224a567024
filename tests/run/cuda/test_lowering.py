"""Inspection of lowered GPU programs on a machine without a GPU."""

import ast

import numpy as np
import pytest

from functrans import grad, jit
from functrans.errors import DeviceError
from functrans.run.cuda import launches, lowering
from functrans.run.cuda.compile import missing
from functrans.scipy.linalg import schur
from tests.errors.words import message_of

compiles = pytest.mark.skipif(bool(missing()), reason="the packages that compile are missing")

X = np.ones((300, 4000), np.float32)
W = np.ones((40, 30))


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)


def test_source_schedule_and_stages_need_no_packages():
    lowered = jit(softmax).lower(X, device="cuda")
    assert [node.name for node in ast.parse(lowered.source()).body] == ["nest0"]
    assert "barrier()" in lowered.source()
    assert lowered.schedule().startswith("nest 0: ")
    names = [line for line in lowered.stages().splitlines() if line.startswith("== ")]
    assert any("thread mapping" in name for name in names)
    (nest,) = lowered.cost().nests
    assert nest.bytes_read == nest.bytes_written == X.nbytes


@compiles
def test_what_kernels_take(monkeypatch):
    report = jit(softmax).lower(X, device="cuda").resources()
    (kernel,) = report.kernels
    assert (report.architecture, report.launches) == ("sm_90", 1)
    assert (kernel.launches, kernel.blocks) == (1, 300)
    assert kernel.team == kernel.threads
    assert kernel.spills == kernel.local == 0 < kernel.registers
    assert 0 < kernel.shared <= 48 << 10  # at least what warps hand to one another
    assert report.bytes_moved == kernel.bytes_read + kernel.bytes_written == 2 * X.nbytes
    assert 0 < kernel.occupancy <= 1
    head, row, total = str(report).splitlines()
    assert len(head) >= len(row.rstrip()) > 0
    assert head.split()[:5] == ["kernel", "launches", "blocks", "threads", "team"]
    assert row.split()[:3] == ["nest0", "1", "300"]
    assert total == "sm_90: 1 launch a call, 9.6 MB read and written, 0 bytes of temporary memory"


@compiles
@pytest.mark.parametrize("architecture", ["sm_80", "sm_100"])
def test_other_architectures(architecture):
    lowered = jit(grad(loss)).lower(W, np.ones((200, 40)), architecture=architecture)
    report = lowered.resources()
    assert report.architecture == architecture
    assert report.launches == sum(one.launches for one in report.kernels) > 1
    assert report.temporary_bytes >= 200 * 30 * 8  # what the second product reads
    ptx = lowered.ptx()
    assert ptx.count(f".target {architecture}") == len(report.kernels)
    assert ptx.startswith("// nest0\n")


def test_a_function_may_have_such_parameters_itself():
    def scaled(x, device=1.0):
        return x * device

    assert "multiply" in str(jit(scaled).lower(X, device=3.0).graph())


def test_a_program_of_the_host_says_nothing_of_kernels():
    lowered = jit(softmax).lower(X, device="cpu")
    assert "define" in lowered.llvm()
    for method in ("ptx", "resources"):
        assert message_of(DeviceError, getattr(lowered, method)) == (
            f'{method}() is of programs for a GPU: jit(f).lower(..., device="cuda"), with or '
            "without a GPU here"
        )


def test_what_there_is_not_for_a_gpu(monkeypatch):
    lowered = jit(softmax).lower(X, device="cuda")
    monkeypatch.setattr(lowering.shutil, "which", lambda name: None)
    assert message_of(DeviceError, lowered.asm) == (
        "machine code of a GPU is shown by NVIDIA's nvdisasm, which is not on the PATH: install it "
        "with the CUDA toolkit, or look at ptx(), from which the code is made"
    )
    assert message_of(DeviceError, lowered.llvm) == (
        "kernels for a GPU go from Numba-CUDA to PTX without LLVM IR that could be shown: source() "
        "has what goes in, ptx() what comes out"
    )
    assert message_of(DeviceError, lowered.dispatchers) == (
        "kernels for a GPU are launched by functrans, and are no functions of Numba's: source() "
        "shows them"
    )


@compiles
def test_the_disassembler_is_given_the_code(monkeypatch, tmp_path):
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\nhead -c 4 "$2" | tail -c 3\n')
    tool.chmod(0o755)
    monkeypatch.setattr(lowering.shutil, "which", lambda name: str(tool))
    assert jit(lambda x: x + 1).lower(X, device="cuda").asm() == "ELF"


def test_no_such_architecture_or_device():
    words = message_of(ValueError, lambda: jit(softmax).lower(X, architecture="hopper").resources())
    assert words == "an architecture is called as in 'sm_90', not 'hopper'"
    with pytest.raises(DeviceError, match='a device is "cuda"'):
        jit(softmax).lower(X, device="gpu")


@compiles
def test_calls_of_libraries_are_counted(monkeypatch):
    monkeypatch.setattr(launches, "are_installed", lambda: True)
    lowered = jit(lambda x: np.tanh(x @ x)).lower(np.ones((500, 500)), device="cuda")
    report = lowered.resources()
    assert (report.launches, report.library_calls) == (1, 1)
    assert report.bytes_moved >= 4 * 500 * 500 * 8
    assert "1 launch and 1 of libraries a call" in str(report)
    assert ": a library's" in lowered.source()


def test_what_has_no_kernel_is_named():
    lowered = jit(lambda x: schur(x)[0]).lower(np.eye(7), device="cuda")
    assert "no kernel: schur" in lowered.schedule()
    assert "== no kernel: schur" in lowered.stages()
