"""A stub of the libraries on host memory, which checks calls against nvmath's signatures.

It checks names, number and kinds of arguments, members of enumerations, leading dimensions, that
memory is allocated and long enough, that a result overlaps no operand, and that handles are alive
and have the right stream. NumPy and SciPy compute the results.

Of the stand-ins for a GPU in the tests, this is the only one that has NVIDIA's libraries, and so
the only one that finds, for example, a wrong leading dimension.
"""

import enum
import re

import numpy as np

from functrans.run.cuda.libraries.bindings import Bindings
from tests.run.cuda.libraries.memory import DATA_TYPE, HEURISTIC, RECORD, Memory, apart
from tests.run.cuda.libraries.routines import Blas, Fourier, Light, Solver

LIMITS = {
    "int": (-(2**31), 2**31 - 1), "signed char": (-128, 127), "int64_t": (-(2**63), 2**63 - 1),
    "long long": (-(2**63), 2**63 - 1), "intptr_t": (0, 2**63 - 1), "size_t": (0, 2**63 - 1),
    "uint64_t": (0, 2**64 - 1), "unsigned int": (0, 2**32 - 1),
}  # fmt: skip

ENUMERATIONS = {
    module: {
        one: enum.IntEnum(one, values) for one, values in RECORD[module]["enumerations"].items()
    }
    for module in ("cublas", "cublasLt", "cusolver", "cusolverDn", "cufft")
}
_BLAS = ENUMERATIONS["cublas"]
# which enumeration an argument is of, by its name
MEANINGS = {
    "uplo": _BLAS["FillMode"], "side": _BLAS["SideMode"], "diag": _BLAS["DiagType"],
    **dict.fromkeys(("trans", "transa", "transb"), _BLAS["Operation"]),
    "jobz": ENUMERATIONS["cusolver"]["EigMode"],
}  # fmt: skip


class Library:
    """A module of nvmath: its functions, which check their arguments, and its enumerations."""

    def __init__(self, name, done, log):
        record = RECORD[name]
        self.__dict__.update(ENUMERATIONS[name])
        for function, signature in record["functions"].items():
            setattr(self, function, self._checking(name, function, signature, done, log))

    def _checking(self, module, function, signature, done, log):
        inside = re.search(r"\((.*)\)", signature)[1]
        parameters = [one.rpartition(" ")[::2] for one in inside.split(", ") if one]

        def call(*arguments):
            assert len(arguments) == len(parameters), f"{signature}: {arguments}"
            for (kind, name), value in zip(parameters, arguments, strict=True):
                self._check(module, function, kind, name, value)
            log.append((f"{module}.{function}", arguments))
            return getattr(done, function)(*arguments)

        return call

    def _check(self, module, function, kind, name, value):
        where = f"{module}.{function}: {name} = {value!r}"
        if kind == "":
            assert type(value) is list and all(type(one) is int for one in value), where
            return
        least, most = LIMITS[kind]
        assert isinstance(value, (int, np.integer)) and least <= value <= most, where
        meaning = MEANINGS.get(name)
        if name == "compute_type" and module == "cublasLt":
            meaning = ENUMERATIONS["cublas"]["ComputeType"]
        elif name == "type" and module == "cufft":
            meaning = self.Type
        elif name.endswith(
            ("_type", "type_a", "type_w", "type_s", "type_u", "type_vt", "type_tau")
        ):
            meaning = DATA_TYPE
        elif name == "type":
            meaning = DATA_TYPE
        elif name == "attr":
            meaning = {
                "matmul_desc_set_attribute": self.MatmulDescAttribute,
                "matmul_preference_set_attribute": self.MatmulPreferenceAttribute,
                "matrix_layout_set_attribute": self.MatrixLayoutAttribute,
            }[function]
        if meaning is not None:
            assert isinstance(value, meaning), f"{where} is no {meaning}"


class Driver:
    """What is used of the driver: contexts, and commands on memory."""

    def __init__(self, machine, log):
        self.machine, self.memory, self.log = machine, machine.memory, log
        self.CUmemorytype = enum.IntEnum("CUmemorytype", {"CU_MEMORYTYPE_DEVICE": 2})
        self.contexts = []

    def cuCtxGetCurrent(self):
        return 0, self.machine.context

    def cuCtxPushCurrent(self, context):
        self.contexts.append(self.machine.context)
        self.machine.context = context
        return (0,)

    def cuCtxPopCurrent(self):
        popped, self.machine.context = self.machine.context, self.contexts.pop()
        return 0, popped

    class CUDA_MEMCPY2D:
        __slots__ = (
            "Height", "WidthInBytes", "dstDevice", "dstMemoryType", "dstPitch", "srcDevice",
            "srcMemoryType", "srcPitch",
        )  # fmt: skip

    def _on(self, name, stream):
        assert stream in self.machine.streams, "another stream"
        self.log.append((f"driver.{name}", ()))

    def cuMemsetD32Async(self, address, word, count, stream):
        self._on("cuMemsetD32Async", stream)
        self.memory.array(address, count, np.uint32)[...] = word
        return (0,)

    def cuMemsetD2D32Async(self, address, pitch, word, width, height, stream):
        self._on("cuMemsetD2D32Async", stream)
        assert pitch % 4 == 0 and pitch < 2**31 and height > 1
        self.memory.matrix(address, width, height, pitch // 4, np.uint32)[...] = word
        return (0,)

    def cuMemcpyDtoDAsync(self, target, source, nbytes, stream):
        self._on("cuMemcpyDtoDAsync", stream)
        into, from_ = self.memory.bytes(target, nbytes), self.memory.bytes(source, nbytes)
        apart(into, from_)
        into[...] = from_
        return (0,)

    def cuMemcpy2DAsync(self, one, stream):
        self._on("cuMemcpy2DAsync", stream)
        assert one.srcMemoryType == one.dstMemoryType == self.CUmemorytype.CU_MEMORYTYPE_DEVICE
        assert max(one.srcPitch, one.dstPitch) < 2**31
        shape = one.WidthInBytes, one.Height
        source = self.memory.matrix(one.srcDevice, *shape, one.srcPitch, np.uint8)
        target = self.memory.matrix(one.dstDevice, *shape, one.dstPitch, np.uint8)
        apart(target, source)
        target[...] = source
        return (0,)


class Machine:
    """A device with its libraries: which context and stream are current, and what was called.

    Parameters
    ----------
    memory : Memory, optional
    """

    def __init__(self, memory=None):
        self.memory = memory or Memory()
        self.context, self.stream = 7, 0x5700
        self.captured = None
        self.log = []
        self.done = [kind(self) for kind in (Blas, Light, Solver, Fourier)]
        blas, light, solver, fourier = self.done
        cublas_lt = Library("cublasLt", light, self.log)
        cublas_lt.matmul_heuristic_result_dtype = HEURISTIC
        self.bindings = Bindings(
            Library("cublas", blas, self.log), cublas_lt, Library("cusolver", solver, self.log),
            Library("cusolverDn", solver, self.log), Library("cufft", fourier, self.log),
            Driver(self, self.log), DATA_TYPE,
        )  # fmt: skip

    @property
    def streams(self):
        """Where work may be put: while a stream is captured, there alone."""
        return (self.stream,) if self.captured is None else (self.captured,)

    def called(self, name):
        """How often a function was called."""
        return sum(each == name for each, _ in self.log)

    @property
    def live(self):
        """The handles that were not destroyed."""
        return [handle for one in self.done for handle in one.live]
