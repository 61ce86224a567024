"""Kernel text compiled by Numba, which shares nothing with our translation of it to LLVM IR.

It takes three to thirty times as long, since it supports all of Python.
"""

import inspect
import math
from contextlib import contextmanager
from importlib import import_module

import numpy as np

from functrans.emit.cuda.names import TABLE
from functrans.emit.cuda.site import Site
from functrans.run.cuda import compile as compiling
from functrans.run.cuda import nvjitlink, nvvm
from functrans.run.cuda.resources import parse


def cubin(source, signature, architecture, threads=None, blocks=1):
    """What `functrans.run.cuda.compile.compile_cubin` gives, if Numba translates the source."""
    capability = compiling.capability(architecture)
    name = compiling.function_name(source)
    modules = modules_by_numba(source, name, signature, capability, threads, blocks)
    made = nvvm.intermediate(modules, architecture.replace("sm_", "compute_"))
    code, log = nvjitlink.cubin(made, architecture)
    return compiling.Cubin(name, code, made, architecture, parse(log))


def modules_by_numba(source, name, signature, capability, threads, blocks):
    """The LLVM IR of a kernel, for NVVM."""
    from numba.cuda.extending import intrinsic

    compiler, numbas_nvvm = _numba_cuda()
    scope = {"np": np, "math": math, **{each: intrinsic(typed(each)) for each in TABLE}}
    exec(source, scope)
    library, _ = compiler._compile_pyfunc_with_fixup(
        scope[name],
        numba_type("none")(*map(numba_type, signature)),
        device=False,
        cc=capability,
        abi="numba",
        launch_bounds=threads if blocks == 1 else (threads, blocks),
    )
    # the mangled name contains a running number
    mangled = library._entry_name
    return [numbas_nvvm.llvm_replace(text).replace(mangled, name) for text in library.llvm_strs]


def numba_type(name):
    """The Numba type of this name."""
    from numba.cuda import types

    if name.endswith("*"):
        return types.CPointer(numba_type(name[:-1]))
    if " x " in name:
        element, count = name.split(" x ")
        return types.UniTuple(numba_type(element), int(count))
    return getattr(types, "boolean" if name == "bool" else name)


def typed(name):
    """The typing function of Numba's intrinsic: operand types to signature and generator."""
    from numba.core.errors import TypingError

    entry = TABLE[name]

    def function(context, *kinds):
        operands = tuple(getattr(kind, "literal_value", str(kind)) for kind in kinds)
        if entry.literal and not all(hasattr(kind, "literal_value") for kind in kinds):
            raise TypingError(f"{name}({', '.join(operands)}): the operands must be literals")
        result = entry.rule(*operands)
        if result is None:
            raise TypingError(f"{name}({', '.join(map(str, operands))}) is not defined")

        def generate(context, builder, signature, args):
            found = entry.code(Site(builder, operands, result), *args)
            if isinstance(found, tuple):
                return context.make_tuple(builder, numba_type(result), found)
            return context.get_dummy_value() if result == "none" else found

        return numba_type(result)(*kinds), generate

    parameters = [
        inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for each in ("context", *entry.parameters.split())
    ]
    # Numba reads the number of operands from the signature
    function.__signature__ = inspect.Signature(parameters)
    function.__name__ = name
    return function


def _numba_cuda():
    from numba.cuda import compiler
    from numba.cuda.cudadrv import nvvm as numbas_nvvm

    with _with_older_names():
        import_module("numba.cuda.np.arrayobj")
    return compiler, numbas_nvvm


@contextmanager
def _with_older_names():
    """Restore a name that NumPy 2.5 has removed, which numba-cuda 0.30 reads on import."""
    if "row_stack" in vars(np):
        yield
        return
    np.vstack = np.vstack
    try:
        yield
    finally:
        del np.vstack
