"""Each rewrite for a machine, on graphs written by hand: the new equations, and equal results."""

import pytest

from functrans.optimise.machine.contraction_layout import lay_out_contractions
from functrans.optimise.machine.outlining import outline
from functrans.optimise.machine.product_layout import columns_first, swap_products
from functrans.optimise.machine.scan_motion import move_out_of_scans
from functrans.optimise.machine.transposed_solves import solve_through_transposes
from functrans.optimise.machine.write_coalescing import coalesce_writes
from functrans.optimise.passes import FOR_CORES
from tests.ir.written import graph, is_graph
from tests.optimise.machine.rewrites import becomes, names, rewritten, stays


def product(left, right, contract, batch="((), ())"):
    return f"dot_general[contract={contract}, batch={batch}] {left} {right}"


# -- products that are transposed ------------------------------------------------------------------


def test_a_transposed_product_is_the_product_of_the_swapped_operands():
    becomes(
        swap_products,
        f"""{{ x:f64[4,5], y:f64[5,6] ->
        a = {product("x", "y", "((1,), (0,))")}
        b = transpose[permutation=(1, 0)] a
        return b }}""",
        f"""{{ x:f64[4,5], y:f64[5,6] ->
        b = {product("y", "x", "((0,), (1,))")}
        return b }}""",
    )


def test_batches_stay_in_front():
    becomes(
        swap_products,
        f"""{{ x:f64[3,4,5], y:f64[3,5,6] ->
        a = {product("x", "y", "((2,), (1,))", "((0,), (0,))")}
        b = transpose[permutation=(0, 2, 1)] a
        return b }}""",
        f"""{{ x:f64[3,4,5], y:f64[3,5,6] ->
        b = {product("y", "x", "((1,), (2,))", "((0,), (0,))")}
        return b }}""",
    )


@pytest.mark.parametrize(
    "end",
    [
        "b = transpose[permutation=(1, 0)] a\n return b, a }",  # used as it is, too
        "b = transpose[permutation=(0, 1)] a\n return b }",
        "b = reshape[shape=(6, 4)] a\n return b }",
    ],
)
def test_other_products_stay(end):
    stays(
        swap_products,
        f"{{ x:f64[4,5], y:f64[5,6] ->\n a = {product('x', 'y', '((1,), (0,))')}\n {end}",
    )


# -- matrices of scans -----------------------------------------------------------------------------


def scan_of(body, operands, inputs, n_consts, length=20, results="r"):
    n_carry = len(results.split(", "))
    params = f"body=body, length={length}, reverse=False, n_consts={n_consts}, n_carry={n_carry}"
    text = f"{{ {inputs} ->\n {results} = scan[{params}] {operands}\n return {results} }}"
    return graph(text, body=graph(body))


STEP = """{{ w:f64[{n},{n}], h:f64[{n}] ->
    a = dot_general[contract=((1,), (0,)), batch=((), ())] w h
    b = multiply a 0.125
    return b }}"""


def test_steps_multiply_with_the_transpose():
    made = scan_of(STEP.format(n=20), "w h", "w:f64[20,20], h:f64[20]", 1)
    after = rewritten(columns_first, made)
    assert names(after) == ["transpose", "scan"]
    turn, scan = after.eqns
    assert turn.outputs[0] in scan.inputs
    (inner, _) = scan.params["body"].eqns
    assert inner.params["contract"][0] == (0,)


@pytest.mark.parametrize(("n", "length"), [(8, 20), (20, 4), (256, 20)])
def test_small_and_large_matrices_and_few_steps_are_not_worth_it(n, length):
    made = scan_of(STEP.format(n=n), "w h", f"w:f64[{n},{n}], h:f64[{n}]", 1, length)
    assert rewritten(columns_first, made) == made


# -- contractions ----------------------------------------------------------------------------------


def test_a_contraction_reads_through_a_transpose():
    becomes(
        lay_out_contractions,
        f"""{{ x:f64[64,64], y:f64[64,64] ->
        a = transpose[permutation=(1, 0)] x
        b = {product("a", "y", "((1,), (0,))")}
        return b }}""",
        f"""{{ x:f64[64,64], y:f64[64,64] ->
        a = transpose[permutation=(1, 0)] x
        b = {product("x", "y", "((0,), (0,))")}
        return b }}""",
    )


def test_what_blas_cannot_take_is_copied_in_another_order():
    """The summed axes are on both sides of the free one."""
    after = rewritten(
        lay_out_contractions,
        graph(
            f"""{{ x:f64[16,40,16], y:f64[16,16,40] ->
            a = {product("x", "y", "((0, 2), (0, 1))")}
            return a }}"""
        ),
    )
    assert names(after) == ["transpose", "dot_general"]
    assert after.eqns[0].params["permutation"] == (1, 0, 2)


BASIS = """z = absent[shape=(64, 64), dtype=float64]
            e = select m 1.0 z"""


@pytest.mark.parametrize(
    ("matrix", "multiplies"), [(BASIS, False), ("e = cast[dtype=float64] m", True)]
)
def test_a_contraction_with_a_basis_is_none(matrix, multiplies):
    """What a user makes of ``i == j`` has zeros that are numbers."""
    after = rewritten(
        lay_out_contractions,
        graph(
            f"""{{ x:f64[64,64] ->
            i = iota[size=64, dtype=int64]
            r = reshape[shape=(64, 1)] i
            m = equal r i
            {matrix}
            a = {product("x", "e", "((1,), (0,))")}
            return a }}"""
        ),
    )
    assert ("dot_general" in names(after)) == multiplies


def test_long_sums_are_cut_and_symmetric_matrices_are_half():
    long = graph(
        f"{{ x:f64[8192,32], y:f64[8192,32] ->\n a = {product('x', 'y', '((0,), (0,))')}\n"
        " return a }"
    )
    gemm, total = rewritten(lay_out_contractions, long).eqns
    assert (gemm.primitive.name, total.primitive.name) == ("gemm", "reduce_sum")
    assert gemm.params["parts"] == 8 and not gemm.params["symmetric"]
    gram = graph(f"{{ x:f64[300,300] ->\n a = {product('x', 'x', '((0,), (0,))')}\n return a }}")
    (gemm,) = rewritten(lay_out_contractions, gram).eqns
    assert gemm.params["symmetric"] and gemm.params["parts"] is None


def test_small_contractions_stay():
    stays(
        lay_out_contractions,
        f"""{{ x:f64[4,4], y:f64[4,4] ->
        a = transpose[permutation=(1, 0)] x
        b = {product("a", "y", "((1,), (0,))")}
        return b }}""",
    )


# -- arrays that are put together bit by bit -------------------------------------------------------

PARTS = 8
PIECE = 16
WHOLE = PARTS * PIECE


def place(n):
    return f"index=(({n * PIECE}, {PIECE}, 1),)"


def chain(*lines, returns):
    inputs = ", ".join(f"x{n}:f64[{PIECE}]" for n in range(PARTS))
    return graph("\n".join([f"{{ {inputs} ->", *lines, f"return {returns} }}"]))


def test_a_sum_of_slices_is_one_array():
    lines = [f"e{n} = embed[{place(n)}, shape=({WHOLE},)] x{n}" for n in range(PARTS)]
    lines += [f"s{n} = add {'e0' if n == 1 else f's{n - 1}'} e{n}" for n in range(1, PARTS)]
    (eqn,) = rewritten(coalesce_writes, chain(*lines, returns="s7")).eqns
    assert (eqn.primitive.name, eqn.params["adds"]) == ("assemble", True)
    assert len(eqn.inputs) == PARTS


ROWS = 6


def rows_of_halves(half, last="embed[index=(({half}, {half}, 1),), shape=({row},)] y0"):
    """A sum of embedded rows, each of which is the sum of two halves, embedded as well."""
    row = 2 * half
    inputs = ", ".join(f"{name}{n}:f64[{half}]" for n in range(ROWS) for name in "xy")
    lines = [f"{{ {inputs}, z:f64[{row}] ->"]
    for n in range(ROWS):
        right = last.replace("y0", f"y{n}")
        lines += [
            f"a{n} = embed[index=((0, {half}, 1),), shape=({row},)] x{n}",
            f"b{n} = {right.format(half=half, row=row)}",
            f"c{n} = add a{n} b{n}",
            f"d{n} = embed[index=({n}, (0, {row}, 1)), shape=({ROWS}, {row})] c{n}",
        ]
    lines += [f"s{n} = add {'d0' if n == 1 else f's{n - 1}'} d{n}" for n in range(1, ROWS)]
    return graph("\n".join([*lines, f"return s{ROWS - 1} }}"]))


def test_rows_that_are_sums_of_slices_are_added_slice_by_slice():
    (eqn,) = rewritten(coalesce_writes, rows_of_halves(14)).eqns
    assert eqn.params["adds"] and len(eqn.inputs) == 2 * ROWS
    assert (2, (14, 14, 1)) in eqn.params["indices"]


@pytest.mark.parametrize(("half", "last"), [(3, None), (14, "negative z")])
def test_rows_with_short_slices_or_other_terms_are_added_as_they_are(half, last):
    made = rows_of_halves(half) if last is None else rows_of_halves(half, last)
    assert max(len(eqn.inputs) for eqn in rewritten(coalesce_writes, made).eqns) <= ROWS


def test_assignments_one_after_the_other_are_one_array():
    lines = [f"s0 = full[shape=({WHOLE},), value=0.0, dtype=float64]"]
    lines += [f"s{n + 1} = update_slice[{place(n)}] s{n} x{n}" for n in range(PARTS)]
    # the first is overwritten
    lines.append(f"s{PARTS + 1} = update_slice[{place(0)}] s{PARTS} x3")
    made = chain(*lines, returns=f"s{PARTS + 1}")
    (eqn,) = rewritten(coalesce_writes, made).eqns
    assert (eqn.primitive.name, eqn.params["adds"]) == ("assemble", False)
    assert made.inputs[0] not in eqn.inputs and len(eqn.inputs) == PARTS


def test_concatenations_of_concatenations_are_one():
    lines = [
        f"c{n} = concatenate[axis=0] {'x0' if n == 1 else f'c{n - 1}'} x{n}"
        for n in range(1, PARTS)
    ]
    made = chain(*lines, returns="c7")
    (eqn,) = rewritten(coalesce_writes, made).eqns
    assert eqn.inputs == made.inputs


@pytest.mark.parametrize("count", [2, 4])
def test_few_parts_stay(count):
    lines = [
        f"c{n} = concatenate[axis=0] {'x0' if n == 1 else f'c{n - 1}'} x{n}"
        for n in range(1, count)
    ]
    made = chain(*lines, returns=f"c{count - 1}")
    assert rewritten(coalesce_writes, made) == made


@pytest.mark.parametrize(("columns", "is_one"), [(6, True), (8, False)])
def test_parts_that_begin_within_rows_are_written_one_after_the_other(columns, is_one):
    rows = [48 // columns * 2, columns]
    made = graph(f"""{{ x:f64[40], y:f64[56] ->
        a = concatenate[axis=0] x y
        b = reshape[shape=({rows[0]}, {rows[1]})] a
        return b }}""")
    assert ("assemble" in names(rewritten(coalesce_writes, made))) == is_one


def test_what_is_used_between_stays():
    lines = [f"s0 = full[shape=({WHOLE},), value=0.0, dtype=float64]"]
    lines += [f"s{n + 1} = update_slice[{place(n)}] s{n} x{n}" for n in range(PARTS)]
    made = chain(*lines, returns=", ".join(f"s{n + 1}" for n in range(PARTS)))
    assert rewritten(coalesce_writes, made) == made


# -- solves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [False, True])
def test_solves_read_through_transposes(flag):
    text = """{{ a:f64[5,5], b:f64[5,2] ->
        t = transpose[permutation=(1, 0)] a
        x = solve[transpose_a={}] {} b
        return x }}"""
    becomes(solve_through_transposes, text.format(flag, "t"), text.format(not flag, "a"))
    stays(solve_through_transposes, text.format(flag, "a"))


def test_stacks_of_matrices():
    text = """{{ a:f64[3,5,5], b:f64[3,5,2] ->
        t = transpose[permutation={}] a
        x = solve[transpose_a=False] t b
        return x }}"""
    after = rewritten(solve_through_transposes, graph(text.format("(0, 2, 1)")))
    assert after.eqns[1].inputs[0] is after.inputs[0]


# -- out of scans ----------------------------------------------------------------------------------

RECURRENT = """{ w:f64[32,32], h:f64[32], x:f64[32] ->
    a = dot_general[contract=((0,), (0,)), batch=((), ())] x w
    b = add h a
    c = tanh b
    return c }"""


def test_the_inputs_part_of_a_network_goes_before_the_loop():
    made = scan_of(RECURRENT, "w h xs", "w:f64[32,32], h:f64[32], xs:f64[20,32]", 1)
    after = rewritten(move_out_of_scans, made)
    assert names(after)[-1] == "scan"
    assert "dot_general" in names(after)
    assert "dot_general" not in names(after.eqns[-1].params["body"])


def test_what_needs_the_carry_stays():
    needs = RECURRENT.replace("] x w", "] h w")
    made = scan_of(needs, "w h xs", "w:f64[32,32], h:f64[32], xs:f64[20,32]", 1)
    assert rewritten(move_out_of_scans, made) == made


def test_a_gradient_is_added_up_after_the_loop():
    """The outer products of two rows of each step."""
    body = """{ g:f64[32,32], h:f64[32], x:f64[32] ->
        a = dot_general[contract=((), ()), batch=((), ())] x h
        b = add g a
        c = tanh h
        d = multiply c x
        return b, d }"""
    inputs = "g:f64[32,32], h:f64[32], xs:f64[20,32]"
    after = rewritten(move_out_of_scans, scan_of(body, "g h xs", inputs, 0, results="r, s"))
    assert names(after) == ["scan", "dot_general", "add"]
    assert after.eqns[1].params["contract"] == ((0,), (0,))


def test_small_steps_stay():
    small = RECURRENT.replace("32", "3")
    made = scan_of(small, "w h xs", "w:f64[3,3], h:f64[3], xs:f64[20,3]", 1)
    assert rewritten(move_out_of_scans, made) == made


# -- repeated steps --------------------------------------------------------------------------------


def repeated(steps, work):
    """So many equal steps of as many operations."""
    lines, last = [], "x"
    for step in range(steps):
        for n in range(work):
            lines.append(f"a{step}_{n} = {'sin' if n % 2 else 'cos'} {last}")
            last = f"a{step}_{n}"
        lines.append(f"b{step} = multiply {last} w")
        last = f"b{step}"
    return graph("\n".join(["{ x:f64[8], w:f64[8] ->", *lines, f"return {last} }}"]))


def test_equal_steps_are_one_inner_graph():
    after = rewritten(outline, repeated(30, 6))
    calls = [eqn for eqn in after.eqns if eqn.primitive.name == "step"]
    assert len(calls) >= 3
    assert len(after.eqns) < 60
    # one kernel for nearly all of them
    assert len({eqn.params["graph"] for eqn in calls}) < len(calls)


def test_few_steps_stay():
    made = repeated(3, 6)
    assert rewritten(outline, made) == made


def test_no_rewrite_touches_what_is_fine():
    text = "{ x:f64[8] ->\n a = sin x\n b = multiply a x\n return b }"
    for each in FOR_CORES.machine:
        is_graph(rewritten(each.run, graph(text)), text)
