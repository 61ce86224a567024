"""Code generation by LLVM: from its language to machine code in memory."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from functrans.caches import cached, once
from functrans.run.code import machine
from functrans.run.code.aside import aside
from functrans.run.code.binding import compiling, llvm
from functrans.run.code.machine import Machine

_numbers = itertools.count()


@once
def _linker() -> Any:
    return llvm().create_lljit_compiler(machine.host().target_machine(), use_jit_link=False)


def vector_bytes() -> int:
    """The width of the widest vector registers of the machine that code is compiled for."""
    return machine.current().vector_bytes


def optimise_module(text: str, target: Machine) -> Any:
    """Parse LLVM text and run the optimisation passes over it."""
    binding = llvm()
    module = binding.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(target.generator.target_data)
    # The emitter has written the vectors and shared what is equal. LLVM's whole pipeline takes
    # twice as long to compile, and the code is not faster (docs/performance.md).
    options = binding.create_pipeline_tuning_options(speed_level=1)
    builder = binding.create_pass_builder(target.generator, options)
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def assembly(text: str) -> str:
    """The machine code that LLVM text becomes, in the assembler's language."""
    target = machine.current()
    result: str = aside(lambda: target.generator.emit_assembly(optimise_module(text, target)))
    return result


def compile_object(text: str, target: Machine | None = None) -> bytes:
    """Machine code for LLVM text, as an object file in memory.

    If a signal breaks this off, the work goes on, and who asks again waits for the rest of it.

    Parameters
    ----------
    text : str
    target : Machine, optional
        What it is for, if not for this process.
    """
    return aside(partial(_compiled, text, target or machine.current()))


def _compiled(text: str, target: Machine) -> bytes:
    with compiling:
        return _image(text, target)


@cached(4)
def _image(text: str, target: Machine) -> bytes:
    image: bytes = target.generator.emit_object(optimise_module(text, target))
    return image


def link(image: bytes, symbol: str, imports: dict[str, int]) -> tuple[int, Any]:
    """Load an object file: the address of a function in it, and what must be kept for that."""
    return aside(partial(_linked, image, symbol, imports))


def _linked(image: bytes, symbol: str, imports: dict[str, int]) -> tuple[int, Any]:
    builder = llvm().JITLibraryBuilder().add_object_img(image).add_current_process()
    for name, address in imports.items():
        builder.import_symbol(name, address)
    library = builder.export_symbol(symbol).link(_linker(), f"functrans{next(_numbers)}")
    return library[symbol], library
