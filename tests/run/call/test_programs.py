"""Programs: arguments, results, and repeated calls."""

import resource
import threading

import numpy as np
import pytest
import scipy.linalg

from functrans import config, grad, jit, vmap
from functrans.ir.types import aval_of
from functrans.run.call.compiled import compile_graph
from functrans.scipy.linalg import hessenberg
from functrans.trace.stage import rewrite


def compiled(function, *args):
    """A program, without the shell of `jit`."""
    return compile_graph(rewrite(lambda *xs: [function(*xs)], [aval_of(x) for x in args]))


def f(x, y):
    return np.sin(x) * y + 1


def odd_inputs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 8))
    raw = np.zeros(6 * 8 * 8 + 1, np.uint8)
    misaligned = raw[1:].view(np.float64).reshape(6, 8)
    misaligned[...] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    return {
        "fortran order": np.asfortranarray(x),
        "strided": rng.normal(size=(12, 16))[::2, ::2],
        "reversed": x[::-1, ::-1],
        "transposed": rng.normal(size=(8, 6)).T,
        "other byte order": x.astype(">f8"),
        "misaligned": misaligned,
        "read-only": read_only,
        "subclass": x.view(np.memmap),
        "broadcast": np.broadcast_to(x[0], (6, 8)),
    }


@pytest.mark.parametrize("kind", odd_inputs())
def test_inputs_in_any_layout(kind):
    x = odd_inputs()[kind]
    plain = np.array(x, np.float64)
    program = compiled(f, plain, plain)
    (result,) = program(x, plain)
    np.testing.assert_allclose(result, f(plain, plain), rtol=1e-14)
    assert type(result) is np.ndarray
    assert result.flags.c_contiguous


@pytest.mark.parametrize(
    "x", [0.5, np.float64(0.5), np.asarray(0.5), np.asarray(0.5, ">f8"), np.ones(1)[0]]
)
def test_numbers_of_any_kind(x):
    (result,) = compiled(f, np.float64(1), np.float64(1))(x, 2.0)
    assert type(result) is np.float64
    np.testing.assert_allclose(result, f(float(x), 2.0), rtol=1e-15)


def test_an_input_of_another_shape_is_refused():
    with pytest.raises(TypeError, match="input 0 is float64 of shape"):
        compiled(f, np.ones(3), np.ones(3))(np.ones(4), np.ones(3))


def test_outputs_are_fresh():
    x = np.ones(3)
    a, b = compile_graph(rewrite(lambda x: [x, x], [aval_of(x)]))(x)
    a[:] = 2
    b[:] = 3
    assert (x == 1).all() and (a == 2).all()


def test_results_outlive_the_program():
    result = jit(f)(np.ones(100), np.ones(100))
    again = jit(lambda x, y: f(x, y) + 0)(np.ones(100), np.ones(100))
    np.testing.assert_array_equal(result, again)


def workload(x, w):
    z = np.tanh(x @ w)
    z = z - np.max(z, axis=1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(z), axis=1))) + np.sum(x[1:] * x[:-1])


def test_the_same_bits_for_any_number_of_threads(monkeypatch):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(700, 300)), rng.normal(size=(300, 200))
    seen = set()
    for threads in (1, 2, 3):
        monkeypatch.setattr(config, "threads", threads)
        results = compiled(lambda x, w: grad(workload)(x, w), x, w)(x, w)
        seen.add(results[0].tobytes())
    assert len(seen) == 1


def test_calls_from_several_threads():
    x = np.random.default_rng(0).normal(size=(200, 300))
    program = compiled(lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True), x)
    (want,) = program(x)
    wrong = []

    def work():
        for _ in range(50):
            (got,) = program(x)
            if not np.array_equal(got, want):
                wrong.append(got)

    several = [threading.Thread(target=work) for _ in range(4)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert not wrong


@pytest.mark.dear
def test_memory_stays():
    x = np.ones((50, 60))
    program = compiled(lambda x: np.exp(x @ x.T), x)
    growth = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(5000):
            program(x)
        growth.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    # an allocator takes more now and then; what is not freed grows each time, by 20 kB a call
    assert min(growth) < 2000


def test_kernels_are_shared_between_sizes():
    def texts(n):
        return compiled(f, np.ones((n, 50)), np.ones((n, 50))).llvm()

    assert texts(100) == texts(203)


def test_a_softmax_is_one_nest_without_temporaries():
    x = np.ones((300, 400))
    program = compiled(lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True), x)
    cost = program.cost()
    assert len(cost.nests) == 1
    assert cost.temporary_bytes == 0
    assert cost.nests[0].bytes_read == x.nbytes == cost.nests[0].bytes_written


def test_a_small_jacobian_is_straight_line_code():
    def field(y):
        a, b, c = y[0], y[1], y[2]
        return np.stack([10 * (b - a), a * (28 - c) - b, a * b - 2.5 * c])

    jacobian = vmap(lambda y: np.stack([grad(lambda y, i=i: field(y)[i])(y) for i in range(3)]))
    lowered = jit(jacobian).lower(np.ones((1000, 3)))
    assert lowered.schedule().count("nest") == 1
    assert lowered.schedule().count("for ") == 1


def test_what_has_no_compiled_form_is_called():
    x = np.random.default_rng(0).normal(size=(6, 6))
    program = compiled(lambda x: hessenberg(np.exp(x)) * 2, x)
    assert "call NumPy" in program.schedule()
    np.testing.assert_allclose(program(x)[0], scipy.linalg.hessenberg(np.exp(x)) * 2, rtol=1e-12)


def test_a_long_chain_of_movements_compiles_in_time_proportional_to_it():
    def chain(x, steps):
        for _ in range(steps):
            x = np.concatenate([x[1:] * 0.5 + x[:-1] * 0.25, x[:1]])
        return x

    x = np.random.default_rng(0).normal(size=100)
    program = compiled(lambda x: chain(x, 60), x)
    assert len(program.llvm()) < 2_000_000
    np.testing.assert_allclose(program(x)[0], chain(x, 60), rtol=1e-12)
