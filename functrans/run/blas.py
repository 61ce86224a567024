"""Addresses of BLAS and LAPACK routines, and a lock that limits BLAS to one thread."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from functrans.caches import cached, once
from functrans.locks import importing

_BLAS = "scipy.linalg.cython_blas"
_LAPACK = "scipy.linalg.cython_lapack"


@cached(64)
def address(symbol: str) -> int:
    """The address of a routine, by its Fortran name: ``dgemm``, ``dpotrf``.

    SciPy's wheels are linked with a library whose routines have this prefix and 32-bit integers.
    The linker finds these without importing ten modules of SciPy. Otherwise the address is in
    SciPy's table.
    """
    linked = getattr(_linked(), f"scipy_{symbol}_", None)
    if linked is not None:
        return ctypes.cast(linked, ctypes.c_void_p).value or 0
    blas = _blas().__pyx_capi__
    capsule = blas[symbol] if symbol in blas else _lapack().__pyx_capi__[symbol]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name(capsule))


@once
def limiter() -> int:
    """The address of the record with which `functrans.run.call.steps` limits BLAS's threads, or 0.

    Its words: the number of users, the number of threads that BLAS had before them, the addresses
    of the functions that get and set this number, and a spin lock.

    Only OpenBLAS, which SciPy's wheels contain under a prefix, is limited; other libraries are not.
    """
    library = _linked() or ctypes.CDLL(_blas().__file__)
    for prefix in ("scipy_openblas", "openblas"):
        get = getattr(library, f"{prefix}_get_num_threads", None)
        set_ = getattr(library, f"{prefix}_set_num_threads", None)
        if get is not None and set_ is not None:
            addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (get, set_)]
            _record[2:4] = addresses
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_after_fork)
            return _record.ctypes.data
    return 0


@contextmanager
def held() -> Iterator[None]:
    """Limit BLAS to one thread within a block, as `functrans.run.call.steps` does."""
    if not limiter():
        yield
        return
    enter, leave = _gate()
    enter(_record)
    try:
        yield
    finally:
        leave(_record)


@once
def _gate() -> tuple[Callable[..., None], Callable[..., None]]:
    """The functions that enter and leave the record, under Python's lock."""
    with importing:
        import numba
        from llvmlite import ir
        from numba import types
        from numba.extending import intrinsic

    _, _, get_threads, set_threads, _ = map(int, _record)
    get = ctypes.CFUNCTYPE(ctypes.c_int)(get_threads)
    set_ = ctypes.CFUNCTYPE(None, ctypes.c_int)(set_threads)

    def word(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        record = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.gep(record.data, [ir.Constant(ir.IntType(64), 4)])

    @intrinsic
    def locked(context, record):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            free, taken = (ir.Constant(ir.IntType(64), number) for number in (0, 1))
            at = word(context, builder, signature, args)
            pair = builder.cmpxchg(at, free, taken, "acquire", "monotonic")
            return builder.extract_value(pair, 1)

        return types.boolean(record), generate

    @intrinsic
    def unlock(context, record):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            at = word(context, builder, signature, args)
            builder.store_atomic(ir.Constant(ir.IntType(64), 0), at, "release", 8)
            return context.get_dummy_value()

        return types.void(record), generate

    @numba.njit
    def enter(record):  # type: ignore[no-untyped-def]
        while not locked(record):  # type: ignore[call-arg]
            pass
        if record[0] == 0:
            record[1] = get()
            set_(1)
        record[0] += 1
        unlock(record)

    @numba.njit
    def leave(record):  # type: ignore[no-untyped-def]
        while not locked(record):  # type: ignore[call-arg]
            pass
        record[0] -= 1
        if record[0] == 0:
            set_(np.int32(record[1]))
        unlock(record)

    return enter, leave


_record = np.zeros(5, np.int64)


def _after_fork() -> None:
    # the users are threads of the parent process, which would have reset the number
    users, threads, _, set_, _ = map(int, _record)
    _record[4] = 0
    if users:
        _record[0] = 0
        ctypes.CFUNCTYPE(None, ctypes.c_int)(set_)(threads)


@once
def _linked() -> ctypes.CDLL | None:
    """The library through which the linker finds SciPy's BLAS and LAPACK; or None."""
    path = _file(_BLAS)
    try:
        return ctypes.CDLL(str(path)) if path is not None and os.name == "posix" else None
    except OSError:
        return None


@once
def _blas() -> Any:
    return _module(_BLAS)


@once
def _lapack() -> Any:
    return _module(_LAPACK)


def _module(name: str) -> Any:
    """SciPy's table of routines, loaded without scipy.linalg unless that is imported already."""
    with importing:
        loaded = sys.modules.get(name)
        if loaded is not None:
            return loaded
        path = _file(name)
        if path is not None:
            loader = importlib.machinery.ExtensionFileLoader(name, str(path))
            spec = importlib.machinery.ModuleSpec(name, loader, origin=str(path))
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            return module
        from scipy.linalg import cython_blas, cython_lapack

        return cython_blas if name == _BLAS else cython_lapack


def _file(name: str) -> Path | None:
    """The file of a C extension module of scipy.linalg."""
    installed = importlib.util.find_spec("scipy")
    folders = installed.submodule_search_locations if installed is not None else None
    for folder in folders or ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder, "linalg", f"{name.rpartition('.')[2]}{suffix}")
            if path.exists():
                return path
    return None
