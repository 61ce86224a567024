"""Which equations are done from memory to memory."""

from functrans.ir.graph import Eqn
from functrans.ops.calls.call import step_p
from functrans.ops.compiled.inplace import is_inplace
from functrans.ops.control.compiled.loops import is_control
from functrans.ops.linalg.compiled.blas import by_library
from functrans.ops.linalg.compiled.written_out import is_matrices


def as_a_whole(eqn: Eqn) -> bool:
    """Whether an equation is done from memory to memory."""
    known = by_library(eqn) or is_control(eqn) or is_inplace(eqn) or is_matrices(eqn)
    return known or eqn.primitive is step_p
