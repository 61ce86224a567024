"""One row of the benchmark of compiling kernels."""

from tests.benchmarks.compiling import PROGRAMS, longest_kernel, row
from tests.emit.cuda.special import needs_compiler


@needs_compiler
def test_a_row_has_times_and_what_comes_out():
    text, signature, threads = longest_kernel(*PROGRAMS["gather"])
    cells = row(text, signature, threads, numba=False).split(" | ")
    assert all(cell.endswith(" ms") for cell in cells[:3])
    lines, ptx, registers, spills, local = map(int, cells[3:])
    assert lines == text.count("\n") < ptx
    assert registers > 0
    assert spills == local == 0
