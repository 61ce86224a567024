"""Loop counters, hidden from LLVM's loop strength reduction in loops with many addresses.

That pass looks for induction variables for all addresses of a loop, which takes more than linear
time: half of the time of a butterfly. It cannot see through empty assembly code, and leaves
addresses that are computed from its result as they are written. Loops that carry sums do not hide
theirs: LLVM then moved sums from register to register, and spilled some.
"""

from __future__ import annotations

from functrans.emit.llvm.text import Writer

MANY_ADDRESSES = 16
"""Measured (`docs/measurements.md`): the tiles of products, which lose, have 8 to 15 with AVX2."""


def counter_of(writer: Writer, body: str, place: int, counter: str) -> tuple[str, str]:
    """The variable that counts, and the line that derives ``counter`` from it, if it is hidden.

    The loop begins at a line of the writer, with the block ``body``; it is an innermost one if it
    has no other block.
    """
    addresses = sum("getelementptr" in line for line in writer.lines[place:])
    if writer.block != body or addresses < MANY_ADDRESSES:
        return counter, ""
    hidden = "%" + writer.name("i")
    return hidden, f'\n  {counter} = call i64 asm "", "=r,0"(i64 {hidden})'
