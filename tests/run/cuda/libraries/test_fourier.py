"""Library Fourier transforms along inner axes, against NumPy."""

import itertools

import numpy as np
import pytest

from functrans.run.cuda.libraries.handles import handles_for
from functrans.run.cuda.libraries.table import adapter
from tests.run.cuda.libraries.stub import Machine

AROUND = [(1, 1), (3, 1), (1, 3), (2, 5), (5, 2), (0, 2), (2, 0)]
POINTS = (1, 2, 3, 8, 17)
COMPLEX = {"c": np.complex64, "z": np.complex128, "s": np.complex64, "d": np.complex128}
REAL = {"s": np.float32, "d": np.float64}


def transformed(symbol, arguments, x, like, before=0, after=0):
    """What a transform writes; the arrays begin so many numbers behind the alignment."""
    machine = Machine()
    source = machine.memory.place(x, before)
    target = machine.memory.place(np.full(like.shape, np.nan, like.dtype), after)
    handles = handles_for(machine.stream, machine.bindings)
    adapter(symbol)(handles, machine.memory.allocate, (*arguments, source, target))
    # what it was given is as it was
    np.testing.assert_array_equal(machine.memory.array(source, x.size, x.dtype), x.ravel())
    return machine.memory.array(target, like.size, like.dtype).reshape(like.shape)


def close(found, expected):
    tolerance = 1e-4 if found.dtype.itemsize // (1 + np.iscomplexobj(found)) == 4 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def numbers(shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("letter", "cz")
@pytest.mark.parametrize("direction", [b"F", b"I"])
def test_fft(letter, direction):
    for (outer, inner), n in itertools.product(AROUND, POINTS):
        x = numbers((outer, n, inner), COMPLEX[letter])
        expected = np.fft.fft(x, axis=1) if direction == b"F" else np.fft.ifft(x, axis=1) * n
        close(
            transformed(f"{letter}fft", (direction, outer, n, inner), x, expected.astype(x.dtype)),
            expected,
        )


@pytest.mark.parametrize("letter", "sd")
@pytest.mark.parametrize("before", [0, 1])
def test_rfft(letter, before):
    for (outer, inner), n in itertools.product(AROUND, POINTS):
        x = numbers((outer, n, inner), REAL[letter])
        expected = np.fft.rfft(x, axis=1).astype(COMPLEX[letter])
        close(transformed(f"{letter}rfft", (outer, n, inner), x, expected, before=before), expected)


@pytest.mark.parametrize("letter", "sd")
@pytest.mark.parametrize("after", [0, 1])
def test_irfft(letter, after):
    for (outer, inner), n in itertools.product(AROUND, POINTS):
        # with imaginary parts where there should be none, which do not count
        x = numbers((outer, n // 2 + 1, inner), COMPLEX[letter])
        expected = (np.fft.irfft(x, n, axis=1) * n).astype(REAL[letter])
        close(transformed(f"{letter}irfft", (outer, n, inner), x, expected, after=after), expected)


def test_in_place():
    x = numbers((2, 8, 3), np.complex128)
    machine = Machine()
    at = machine.memory.place(x)
    handles = handles_for(machine.stream, machine.bindings)
    adapter("zfft")(handles, machine.memory.allocate, (b"F", 2, 8, 3, at, at))
    found = machine.memory.array(at, x.size, x.dtype).reshape(x.shape)
    np.testing.assert_allclose(found, np.fft.fft(x, axis=1), rtol=1e-12)


def test_lines_that_are_evenly_spaced_are_one_call_of_one_plan():
    for (outer, inner), calls in {(3, 1): 1, (1, 3): 1, (2, 5): 2, (5, 2): 2}.items():
        machine = Machine()
        handles = handles_for(machine.stream, machine.bindings)
        x = numbers((outer, 8, inner), np.complex64)
        at, to = machine.memory.place(x), machine.memory.place(x)
        for _ in range(2):
            adapter("cfft")(handles, machine.memory.allocate, (b"F", outer, 8, inner, at, to))
        assert machine.called("cufft.make_plan_many64") == 1
        assert machine.called("cufft.exec_c2c") == 2 * calls
