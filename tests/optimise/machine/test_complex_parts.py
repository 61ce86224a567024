"""Graphs of complex numbers rewritten to real parts, and operations without such a form."""

import numpy as np
import pytest

from functrans import Aval, config, grad, jit, lax, trace
from functrans.errors import GraphTypeError
from functrans.extend import complexes, elementwise, floating, unregister
from functrans.ir.graph import inner_graphs
from functrans.ir.types import is_complex
from functrans.loop.target import CPU
from functrans.optimise import legalised
from functrans.run.call.jitted import program

RNG = np.random.default_rng(5)
Z = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
BIG = RNG.normal(size=(90, 300)) + 1j * RNG.normal(size=(90, 300))


def dtypes_in(graph):
    atoms = (
        *graph.inputs,
        *graph.outputs,
        *(v for e in graph.eqns for v in (*e.inputs, *e.outputs)),
    )
    found = {atom.aval.dtype for atom in atoms}
    return found.union(*(dtypes_in(inner) for eqn in graph.eqns for inner in inner_graphs(eqn)))


def orbit(c):
    z, sizes = lax.scan(lambda z, _: (z * z + c, np.abs(z)), 0j * c, None, length=5)
    z = lax.while_loop(lambda z: np.abs(z) < 4, lambda z: 2j * z + 1, z)
    return lax.cond(z.imag > 0, np.conj, lambda z: z, z), sizes


PROGRAMS = {
    "elementwise": lambda z: np.exp(1j * z) / (z + 2),
    "structure": lambda z: np.concatenate([z.T.reshape(-1)[::2], np.zeros(3)]),
    "reductions": lambda z: (np.sum(z, 0), np.mean(z), np.std(z), np.linalg.norm(z)),
    "product": lambda z: z @ np.conj(z.T),
    "indexing": lambda z: np.take(z, [2, 0], axis=0) + z.at[0].set(1j)[1:],
    "loops": lambda z: orbit(z[0, 0] / 10),
    "gradient": grad(lambda z: np.sum(np.abs(np.tanh(z) - z**3) ** 2)),
    "real results": lambda z: np.abs(np.exp(1j * np.abs(z))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_complex_value_is_left(name):
    graph = legalised(trace(PROGRAMS[name])(Z), CPU)
    assert not any(map(is_complex, dtypes_in(graph)))
    assert graph.in_avals[0].shape == (3, 4, 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["native", "numba"])
@pytest.mark.parametrize("name", ["structure", "product", "indexing"])
def test_both_back_ends_run_it(name, backend):
    found = jit(PROGRAMS[name], backend=backend)(Z)
    np.testing.assert_allclose(found, PROGRAMS[name](Z) if name != "indexing" else by_hand(), 1e-14)


def by_hand():
    changed = Z.copy()
    changed[0] = 1j
    return Z[[2, 0]] + changed[1:]


def test_a_graph_of_real_numbers_stays_as_it_is():
    graph = trace(lambda x: np.sin(x) + 1)(np.ones(3))
    assert legalised(graph, CPU) is graph


def test_to_take_apart_what_is_apart_adds_nothing():
    graph = legalised(trace(lambda z: np.sort(np.exp(z)) * 2)(Z), CPU)
    again = legalised(graph, CPU)
    names = [sorted(eqn.primitive.name for eqn in each.eqns) for each in (graph, again)]
    assert names[0] == names[1]


def test_what_has_no_form_in_parts_is_given_complex_arrays():
    schedule = jit(lambda z: np.sort(z * 2) + 1).lower(Z).schedule()
    named = [line.split(": ")[1] for line in schedule.splitlines() if line.startswith("call NumPy")]
    assert named == ["pairs_to_complex", "sort", "complex_to_pairs"]
    np.testing.assert_array_equal(jit(lambda z: np.sort(z * 2) + 1)(Z), np.sort(Z * 2) + 1)


@pytest.mark.parametrize("threads", [1, 3])
def test_large_arrays_and_products(threads):
    before, config.threads = config.threads, threads
    try:
        found = jit(lambda z: np.exp(z @ z.conj().T / 300))(BIG)
    finally:
        config.threads = before
    np.testing.assert_allclose(found, np.exp(BIG @ BIG.conj().T / 300), rtol=1e-12)


def test_donated_complex_arrays_are_written_over():
    step = jit(lambda z: z - 0.5 * np.conj(z), donate_argnums=0)
    z = BIG.copy()
    expected = z - 0.5 * np.conj(z)
    found = step(z)
    assert found is z
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_single_precision_stays_single():
    f = jit(lambda z: (np.sqrt(z), np.log(z), np.abs(z), z * 1j, z @ z.T))
    for one in f(Z.astype(np.complex64)):
        assert one.dtype.itemsize in (4, 8) and one.dtype in (np.complex64, np.float32)


def test_a_rule_that_gives_another_dtype_is_found_before_anything_is_compiled():
    wrong = elementwise(
        "wrong_parts",
        numpy=lambda z: z * 2,
        promotion=floating,
        linear=((0,),),
        parts=lambda z: z._replace(im=z.im * np.float64(1)),
        samples=complexes(0.5, 2),
    )
    try:
        with pytest.raises(GraphTypeError, match=r"parts of c64\[3\] that wrong_parts gives are"):
            jit(wrong)(np.ones(3, np.complex64))
    finally:
        unregister("wrong_parts")


def test_types_of_arguments_are_checked():
    compiled = program(trace(lambda z: z + 1)(Aval((3,), complex)))
    np.testing.assert_array_equal(compiled(np.ones(3)), [np.full(3, 2 + 0j)])
    with pytest.raises(TypeError, match="compiled for complex128 of shape"):
        compiled(np.ones(4, complex))


WITH_VECTORS = {
    "rows": lambda z, v, u: z @ v,
    "columns": lambda z, v, u: u @ z,
    "transposed": lambda z, v, u: z.T @ u,
    "adjoint": lambda z, v, u: z.conj().T @ u,
    "conjugate, from the left": lambda z, v, u: v @ z.T.conj(),
}


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", WITH_VECTORS)
def test_a_stored_matrix_is_multiplied_by_a_vector_as_it_lies(name, dtype):
    z, v, u = (x.astype(dtype) for x in (BIG, BIG[0], BIG[:, 0]))
    function = WITH_VECTORS[name]
    graph = legalised(trace(function)(z, v, u), CPU)
    read = [x.aval.shape for eqn in graph.eqns if "dot" in eqn.primitive.name for x in eqn.inputs]
    assert (90, 600) in read
    assert (90, 300) not in read
    for order in "CF":
        found = jit(function)(np.asarray(z, order=order), v, u)
        tolerance = 1e-12 if dtype == np.complex128 else 1e-4
        np.testing.assert_allclose(found, function(z, v, u), tolerance, tolerance)
        assert found.dtype == dtype


def products(function, *arrays):
    """The shapes of the operands of products in the rewritten graph."""
    graph = legalised(trace(function)(*arrays), CPU)
    return [
        tuple(x.aval.shape for x in eqn.inputs)
        for eqn in graph.eqns
        if eqn.primitive.name == "dot_general"
    ]


OF_MATRICES = {
    "rows": (lambda a, b: a @ b.T, [((180, 300), (180, 300))]),
    "columns": (lambda a, b: a.T @ b, [((90, 600), (90, 600))]),
    "conjugated": (lambda a, b: a.conj() @ b.conj().T, [((180, 300), (180, 300))]),
    "with itself": (lambda a, b: a.conj().T @ a, [((90, 600), (90, 600))]),
    "of computed values": (lambda a, b: (a + 1) @ np.exp(b.T), [((180, 300), (300, 180))]),
    "of stacks": (
        lambda a, b: np.reshape(a, (2, 45, 300)) @ np.reshape(b, (2, 300, 45)),
        [((2, 90, 300), (2, 300, 90))],
    ),
    "one part read": (lambda a, b: (a @ b.T).conj().T.imag, [((90, 300), (300, 90))] * 2),
    "with a real matrix": (lambda a, b: a.real @ b.T, [((90, 300), (300, 90))] * 4),
    "small": (lambda a, b: a[:9, :9] @ b[:9, :9], [((9, 9), (9, 9))] * 4),
    "of few columns": (
        lambda a, b: np.tile(a, (50, 1)) @ b.T[:, :2],
        [((4500, 300), (300, 4))] * 2,
    ),
}


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_matrices_are_multiplied_by_one_real_product(name, dtype):
    a, b = BIG.astype(dtype), (1j * BIG[::-1]).astype(dtype)
    function, expected = OF_MATRICES[name]
    assert products(function, a, b) == expected
    tolerance = 1e-12 if dtype == np.complex128 else 1e-3
    for order in "CF":
        found = jit(function)(np.asarray(a, order=order), b)
        np.testing.assert_allclose(found, function(a, b), tolerance, tolerance)


@pytest.mark.parametrize("number", [np.inf, complex(0, -np.inf), np.nan, 1e300, 1e-300])
def test_special_numbers_spread_as_in_four_products(number):
    a, b = BIG[:17].copy(), BIG.T[:, :20].copy()
    a[3, 5] = number
    found = jit(lambda a, b: a @ b)(a, b)
    with np.errstate(invalid="ignore"):
        re = a.real @ b.real - a.imag @ b.imag
        im = a.real @ b.imag + a.imag @ b.real
    np.testing.assert_allclose(found.real, re, 1e-12, 1e-12)
    np.testing.assert_allclose(found.imag, im, 1e-12, 1e-12)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sums", [np.cumsum, np.sum])
def test_sums_of_stored_numbers_leave_their_parts_together(sums, axis):
    graph = legalised(trace(lambda z: sums(z, axis))(Z), CPU)
    assert len(graph.eqns) == 1
    for mean in (lambda z: sums(z, axis), lambda z: np.abs(sums(z, axis) / 3) + sums(z * z, axis)):
        np.testing.assert_allclose(jit(mean)(Z), mean(Z), rtol=1e-14, atol=1e-14)
