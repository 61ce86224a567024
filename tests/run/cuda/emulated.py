"""A driver that runs the text of kernels in the emulator, on the memory of the stub driver.

Whole programs run as on a GPU, with checks of lifetimes, stream order and initialisation.
"""

import ctypes
import json
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from functrans.run.cuda import launches
from functrans.run.cuda.compile import Cubin, function_name
from functrans.run.cuda.libraries.handles import handles_for
from functrans.run.cuda.resources import Resources
from tests.emit.cuda.emulator import emulate
from tests.run.cuda.libraries.memory import Memory
from tests.run.cuda.libraries.stub import Machine
from tests.run.cuda.stub import Stub, StubKernel, stubs


@dataclass(frozen=True)
class EmulatedKernel(StubKernel):
    source: str = ""
    signature: tuple = ()


def not_compiled(source, signature, architecture, threads, blocks=1):
    """In place of the compiler: a kernel's text is its code."""
    code = json.dumps([source, signature]).encode()
    return Cubin(function_name(source), code, b"", architecture, Resources(0, 0, 0, 0, 0))


class Emulated(Stub):
    """A GPU whose kernels are emulated."""

    seed = 0

    def load(self, code, name, shared_bytes=0):
        super().load(code, name, shared_bytes)
        source, signature = json.loads(code)
        return EmulatedKernel(name, shared_bytes, source, tuple(signature))

    def copy_in(self, address, source, stream):
        super().copy_in(address, source, stream)
        self._note(address, source.nbytes)

    def copy(self, to, source, nbytes, stream):
        super().copy(to, source, nbytes, stream)
        self._note(to, nbytes)

    def fill(self, address, byte, nbytes, stream):
        super().fill(address, byte, nbytes, stream)
        if stream.capturing is None:
            self._note(address, nbytes)

    def _note(self, address, nbytes):
        """Take note that bytes have been written."""
        block = self._block_at(address)
        start = address - block.address
        _written(block)[start : start + nbytes] = True

    def run_kernel(self, launch):
        kernel = launch.kernel
        given, known, parts = [], {}, []
        for number, (kind, value) in enumerate(
            zip(kernel.signature, launch.arguments, strict=True)
        ):
            if not kind.endswith("*"):
                given.append(value)
                continue
            dtype = np.dtype(kind[:-1])
            block = self._block_at(value)
            if block is None:  # the flag of a program that cannot fail, or nothing
                given.append(np.zeros(0, dtype))
                continue
            start = value - block.address
            count = (block.nbytes - start) // dtype.itemsize
            memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(value)
            given.append(np.frombuffer(memory, dtype))
            part = _written(block)[start : start + count * dtype.itemsize]
            parts.append((part, dtype.itemsize, number))
            known[number] = part.reshape(-1, dtype.itemsize).all(axis=1)
        shape = launch.blocks, launch.threads
        emulate(kernel.source, given, *shape, self.seed, known, launch.shared_bytes)
        for part, size, number in parts:
            part |= np.repeat(known[number], size)


def _written(block):
    if not hasattr(block, "mask"):
        block.mask = np.zeros(block.nbytes, bool)
    return block.mask


@contextmanager
def emulated_gpu(monkeypatch):
    """An emulated GPU in place of the machine's."""
    monkeypatch.setattr(launches, "compile_cubin", not_compiled)
    monkeypatch.setattr(launches, "are_installed", lambda: False)
    with stubs(kind=Emulated) as (one,):
        yield one


@contextmanager
def emulated_libraries(monkeypatch):
    """The same with NVIDIA's libraries, played on its memory: the GPU has them as `machine`."""
    machine = Machine(Memory(anywhere=True))
    with emulated_gpu(monkeypatch) as one:
        monkeypatch.setattr(launches, "are_installed", lambda: True)
        monkeypatch.setattr(
            launches, "handles_for", lambda stream: handles_for(machine.stream, machine.bindings)
        )
        one.machine = machine
        yield one
