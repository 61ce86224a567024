"""Link-time optimisation by nvJitLink: from NVVM's intermediate language to machine code.

nvJitLink assembles PTX as a part of a program (like ``ptxas -c``), and reserves registers for
callers that do not exist: up to twice as many. It compiles NVVM's intermediate form as a whole.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from functrans.caches import once
from functrans.locks import importing
from functrans.run.cuda.nvvm import loaded

_OPTIONS = (
    "-lto",
    "-fma=0",  # otherwise products and sums are contracted
    "-no-cache",  # results from the driver's cache have no report
    "-Xptxas=-v",
    "-verbose",
)


def cubin(
    intermediate: bytes,  # the result of `functrans.run.cuda.nvvm.intermediate`
    architecture: str,  # ``"sm_90"``
) -> tuple[bytes, str]:
    """Machine code, and the assembler's report on it.

    Raises `RuntimeError` if it cannot be linked, with nvJitLink's message.
    """
    return _linked(intermediate, architecture, "cubin")


def ptx(intermediate: bytes, architecture: str) -> str:
    """The PTX that machine code is assembled from."""
    text, _ = _linked(intermediate, architecture, "ptx", "-ptx")
    return text.decode().strip("\0").strip()


def _linked(intermediate: bytes, architecture: str, kind: str, *more: str) -> tuple[bytes, str]:
    link = _bindings()
    options = [f"-arch={architecture}", *_OPTIONS, *more]
    handle = link.create(len(options), options)
    try:
        language = link.InputType.LTOIR
        link.add_data(handle, language, intermediate, len(intermediate), "kernel")
        link.complete(handle)
        return _bytes(handle, f"linked_{kind}"), _text(handle, "info_log")
    except link.nvJitLinkError as error:
        raise RuntimeError(_text(handle, "error_log")) from error
    finally:
        link.destroy(handle)


def _text(handle: int, what: str) -> str:
    return _bytes(handle, what).decode().strip("\0").strip()


def _bytes(handle: int, what: str) -> bytes:
    link = _bindings()
    found = bytearray(getattr(link, f"get_{what}_size")(handle))
    getattr(link, f"get_{what}")(handle, found)
    return bytes(found)


@once
def _bindings() -> Any:
    with importing:
        return loaded(import_module("cuda.bindings.nvjitlink"), "nvJitLink")
