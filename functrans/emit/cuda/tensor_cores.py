"""Device code for tensor cores: a warp's matrices from shared memory, and their products.

They use `ldmatrix` and `mma` of NVIDIA's PTX, for compute capability 8.0 and later, which all
threads of a warp execute together. The chapters "ldmatrix" and "Matrix fragments for mma" of the
PTX ISA define which thread holds which elements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from functrans.emit.cuda.numbers import Code
from functrans.emit.cuda.site import SHARED, Site


class Shape(NamedTuple):
    """A product of fragments: 16 rows, 8 columns and ``terms`` terms.

    Parameters
    ----------
    terms : int
    kind : str
        PTX's name of the operands' type.
    register : str
        The LLVM type of an operand register, which holds one element or several narrow ones.
    """

    terms: int
    kind: str
    register: str


SHAPES = {
    "float16": Shape(16, "f16", "uint32"),
    "bfloat16": Shape(16, "bf16", "uint32"),
    "float32": Shape(8, "tf32", "float32"),
}
"""By the dtype of the operands; those of float32 are rounded to tf32, with zeros in the other
bits."""


def matrices(transposed: bool) -> Code:
    """Four matrices of 8 x 8 16-bit elements: each thread gets two elements of a row of each.

    Each thread provides the address of one row of 16 bytes in shared memory. If ``transposed``,
    these rows are the columns of the matrices.
    """
    form = ".trans" if transposed else ""

    def code(site: Site, pointer: Any, position: Any) -> Any:
        build, word = site.builder, site.integer(32)
        place = build.gep(pointer, [position])
        near = build.addrspacecast(place, site.pointer(place.type.pointee, SHARED))
        address = build.ptrtoint(near, word)
        four = site.ir.LiteralStructType([word] * 4)
        text = f"ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
        constraints = "=r,=r,=r,=r,r,~{memory}"
        shape = site.ir.FunctionType(four, [word])
        found = build.asm(shape, text, constraints, [address], True)
        return site.several([build.extract_value(found, i) for i in range(4)])

    return code


def as_tf32(site: Site, x: Any) -> Any:
    """A float32, rounded as tensor cores take it: to the nearest, ties away from zero.

    The last 13 bits are unspecified.
    """
    build, word = site.builder, site.integer(32)
    shape = site.ir.FunctionType(word, [x.type])
    found = build.asm(shape, "cvt.rna.tf32.f32 $0, $1;", "=r,f", [x], False)
    return build.bitcast(found, x.type)


def mma(dtype: str) -> Code:
    """The product of two fragments, added to a third one, of which a thread holds four elements."""
    terms, kind, _ = SHAPES[dtype]
    name = f"mma.sync.aligned.m16n8k{terms}.row.col.f32.{kind}.{kind}.f32"
    text = f"{name} {{$0, $1, $2, $3}}, {{$8, $9, $10, $11}}, {{$12, $13}}, {{$4, $5, $6, $7}};"
    constraints = ",".join(["=f"] * 4 + ["f"] * 4 + ["r"] * 6)

    def code(site: Site, *values: Any) -> Any:
        build, word = site.builder, site.integer(32)
        sums, operands = values[:4], values[4:]
        operands = tuple(x if x.type == word else build.bitcast(x, word) for x in operands)
        single = sums[0].type
        shape = site.ir.FunctionType(
            site.ir.LiteralStructType([single] * 4), [single] * 4 + [word] * 6
        )
        # (marked as having side effects, so that it is not moved to where only some threads get)
        found = build.asm(shape, text, constraints, [*sums, *operands], True)
        # unrolling loops around it would need more registers than there are
        found.attributes = site.ir.values.FunctionAttributes(["noduplicate"])
        return site.several([build.extract_value(found, i) for i in range(4)])

    return code
