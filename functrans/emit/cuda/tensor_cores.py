"""Device code for tensor cores: a warp's matrices from shared memory, and their products.

They use `ldmatrix` and `mma` of NVIDIA's PTX, for compute capability 8.0 and later, which all
threads of a warp execute together. The chapters "ldmatrix" and "Matrix fragments for mma" of the
PTX ISA define which thread holds which elements.
"""

from __future__ import annotations

from typing import Any

from functrans.emit.cuda.numbers import Code
from functrans.emit.cuda.site import SHARED, Site
from functrans.loop.fragments import SUMS
from functrans.records import NamedTuple


class Shape(NamedTuple):
    """A product of fragments of 16 rows and 8 columns."""

    instruction: str  # PTX's name of its shape: the rows, columns and terms of one instruction
    kind: str  # PTX's name of the operands' type
    register: str  # the type of an operand register, which holds one element or several narrow ones
    left: int = 4  # a thread's registers for the left operand
    right: int = 2  # and for the right one
    sums: str = "float32"  # the type of its four accumulators

    @property
    def turns(self) -> int:
        """The number of instructions: two if one multiplies only 8 rows."""
        return 2 if self.instruction.startswith("m8") else 1

    @property
    def operands(self) -> tuple[str, ...]:
        """The types of all registers."""
        return (self.sums,) * SUMS + (self.register,) * (self.left + self.right)


SHAPES = {
    "float16": Shape("m16n8k16", "f16", "uint32"),
    "bfloat16": Shape("m16n8k16", "bf16", "uint32"),
    "float32": Shape("m16n8k8", "tf32", "float32"),
    "float64": Shape("m16n8k4", "f64", "float64", 2, 1, "float64"),
    "float64_by_rows": Shape("m8n8k4", "f64", "float64", 2, 1, "float64"),
}
"""By the dtype of the operands; those of float32 are rounded to tf32, with zeros in the other bits.
Instructions multiply 16 rows of float64 from compute capability 9.0 on, and 8 rows before."""


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


def mma(shape: Shape) -> Code:
    """The product of two fragments, added to a third one, of which a thread holds four elements."""
    count, left = SUMS // shape.turns, shape.left // shape.turns
    result = {"float32": "f32", "float64": "f64"}[shape.sums]
    name = f"mma.sync.aligned.{shape.instruction}.row.col.{result}.{shape.kind}.{shape.kind}"
    registers = iter(range(2 * count + left + shape.right))
    results, *operands, sums = (
        f"{{{', '.join(f'${next(registers)}' for _ in range(n))}}}"
        for n in (count, left, shape.right, count)
    )
    text = f"{name}.{result} {results}, {', '.join(operands)}, {sums};"
    is_double = shape.sums == "float64"
    own, other = "dd" if is_double else "fr"
    constraints = [f"={own}"] * count + [other] * (left + shape.right) + [own] * count

    def code(site: Site, *values: Any) -> Any:
        build, word = site.builder, site.integer(32)
        sums, factors = values[:SUMS], values[SUMS:]
        if not is_double:
            factors = tuple(x if x.type == word else build.bitcast(x, word) for x in factors)
        several = site.ir.LiteralStructType([sums[0].type] * count)
        results = []
        for turn in range(shape.turns):
            operands = (
                *factors[turn * left : (turn + 1) * left],
                *factors[shape.left :],
                *sums[turn * count : (turn + 1) * count],
            )
            kinds = site.ir.FunctionType(several, [each.type for each in operands])
            # (with side effects, so that it is not moved to where only some threads get)
            found = build.asm(kinds, text, ",".join(constraints), operands, True)
            # unrolling loops around it would need more registers than there are
            found.attributes = site.ir.values.FunctionAttributes(["noduplicate"])
            results += [build.extract_value(found, i) for i in range(count)]
        return site.several(results)

    return code
