"""Runs translated kernels on the CPU, one thread of the grid after the other.

The code is the LLVM IR that NVVM is given, except for thread indices and the few functions of
NVIDIA's library. Kernels whose threads communicate cannot be run in this way. Of the stand-ins for
a GPU in the tests, this is the only one that runs the output of our compiler of kernel text, so
that it finds mistakes of the translation, such as a wrong comparison.
"""

import ctypes
import re

import numpy as np

from functrans.emit.cuda.translation import LAYOUT, TRIPLE, translated
from tests.emit.cuda.emulator import emulate
from tests.emit.cuda.special import assert_same

VERSION = (2, 0, 3, 2)

PLACES = ("tid", "ntid", "ctaid", "nctaid")
OF_NVIDIA = {"fabs": "fabs", "rint": "rint", "trunc": "trunc"}
"""The functions of NVIDIA's library that are LLVM's, too."""


WRITTEN = (
    ("rcp.approx.ftz.f32 $0, $1;", "approximate_reciprocal"),
    ("mul.wide.u32 $0, $1, $2;", "wide_product"),
)
"""Instructions that are written in assembly language, and the functions that stand for them."""

DEFINED = {
    # one unit in the last place too large, which the hardware may be off by
    "approximate_reciprocal": """
define float @approximate_reciprocal(float %x) {
  %exact = fdiv float 1.0, %x
  %bits = bitcast float %exact to i32
  %more = add i32 %bits, 1
  %off = bitcast i32 %more to float
  ret float %off
}
""",
    "wide_product": """
define i64 @wide_product(i32 %x, i32 %y) {
  %left = zext i32 %x to i64
  %right = zext i32 %y to i64
  %result = mul i64 %left, %right
  ret i64 %result
}
""",
}


class NeedsOthers(Exception):
    """The threads of a kernel wait for each other, or it is written in assembly language."""


def on_cpu(module):
    """LLVM IR for the CPU, in the language of llvmlite's LLVM."""
    text = module.replace(f'target triple = "{TRIPLE}"', "")
    text = text.replace(f'target datalayout = "{LAYOUT}"', "")
    text = re.sub(r"^!.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r", !(invariant.load|prof) !\d+", "", text).replace("undef", "zeroinitializer")
    for place in PLACES:
        name = f'@"llvm.nvvm.read.ptx.sreg.{place}.x"'
        text = text.replace(f"declare i32 {name}()", "")
        text = re.sub(re.escape(f"call i32 {name}()"), f'load i32, i32* @"{place}"', text)
        text += f"\n@{place} = global i32 0\n"
    for name, ours in OF_NVIDIA.items():
        for suffix, size in (("f", 32), ("", 64)):
            text = text.replace(f'"__nv_{name}{suffix}"', f'"llvm.{ours}.f{size}"')
    for assembly, name in WRITTEN:
        text = re.sub(rf'asm\s+"{re.escape(assembly)}", "[^"]*"\s*\(', f"@{name}(", text)
    if re.search(r"llvm\.nvvm|__nv_|asm ", text):
        raise NeedsOthers
    text += "".join(definition for name, definition in DEFINED.items() if f"@{name}(" in text)
    pointer = r"(\[\d+ x \w+\]|<\d+ x \w+>|\b(?:i\d+|float|double|ptr))( addrspace\(\d\))?\*"
    while re.search(pointer, text):
        text = re.sub(pointer, lambda found: f"ptr{found[2] or ''}", text)
    return text


def run_on_cpu(source, arguments, blocks, threads):
    """Run a kernel; the arguments are as those of `emulate`."""
    from llvmlite import binding

    kinds = [f"{x.dtype}*" if isinstance(x, np.ndarray) else "int64" for x in arguments]
    module = binding.parse_assembly(on_cpu(translated(source, kinds, VERSION)))
    module.verify()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(opt=1)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = engine.get_function_address(re.search(r"def (\w+)", source)[1])
    kernel = ctypes.CFUNCTYPE(None, *(ctypes.c_int64 for _ in arguments))(address)
    given = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in arguments]
    places = {
        name: ctypes.c_int32.from_address(engine.get_global_value_address(name)) for name in PLACES
    }
    places["ntid"].value, places["nctaid"].value = threads, blocks
    for block in range(blocks):
        for thread in range(threads):
            places["ctaid"].value, places["tid"].value = block, thread
            kernel(*given)


def emulate_and_run(source, arguments, blocks, threads, *rest):
    """Emulate a kernel, and run it here if that is possible: both write the same bits.

    Gives whether it was.
    """
    copies = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    with np.errstate(all="ignore"):
        emulate(source, arguments, blocks, threads, *rest)
    try:
        run_on_cpu(source, copies, blocks, threads)
    except NeedsOthers:
        return False
    for mine, emulated in zip(copies, arguments, strict=True):
        if isinstance(mine, np.ndarray):
            assert_same(mine, emulated)
    return True
