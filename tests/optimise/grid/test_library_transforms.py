"""Fourier transforms by a library: NumPy's results for any length, axis, norm, dtype."""

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap
from functrans.loop.statements import Call
from functrans.loop.target import CPU
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.verify import verify
from functrans.ops.fft.grid.library import library_fft_p
from functrans.optimise import legalised, optimise
from functrans.optimise.grid.library_transforms import with_library_transforms
from tests.loop.plans import evaluate_plan, shuffled
from tests.targets import target

LIBRARY = target(CUDA, libraries=True)
ALL = target(CUDA, libraries=True, library_transforms={"library": 1})
"""A GPU whose library does all transforms."""

RNG = np.random.default_rng(0)


def real(*shape, dtype=np.float64):
    return RNG.normal(size=shape).astype(dtype)


def numbers(*shape, dtype=np.complex128):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def planned(function, *operands, on=ALL):
    graph = optimise(jit(function).lower(*operands).graph())
    return pipeline.plan(legalised(graph, on), on)


def calls(plan):
    return [one for step in plan.steps for one in step.kernel.body if isinstance(one, Call)]


def in_parts(x):
    x = np.asarray(x)
    return np.stack([x.real, x.imag], -1) if x.dtype.kind == "c" else x


def energy(transform):
    """A gradient: the transpose of the transform, applied to the transform."""
    return grad(lambda x, w: np.sum(np.abs(transform(x) * w) ** 2))


FUNCTIONS = {
    **{
        f"{function.__name__} of {points} points, {norm}": (
            lambda x, f=function, norm=norm: f(x, norm=norm), operand(3, points),
        )
        for function, operand in (
            (np.fft.fft, numbers), (np.fft.ifft, numbers),
            (np.fft.rfft, real), (np.fft.irfft, numbers),
        )
        for points, norm in ((17, "backward"), (12, "ortho"), (2, "forward"))
    },
    "an axis in the middle": (lambda x: np.fft.fft(x, axis=1), numbers(2, 9, 3)),
    "two axes": (np.fft.fft2, numbers(2, 5, 6)),
    "three axes": (np.fft.ifftn, numbers(4, 5, 6)),
    "real, two axes": (np.fft.rfft2, real(3, 5, 6)),
    "real, three axes, and back": (lambda x: np.fft.irfftn(np.fft.rfftn(x) * 2), real(4, 5, 6)),
    "float32": (np.fft.fft, numbers(3, 8, dtype=np.complex64)),
    "real float32": (np.fft.rfft, real(3, 8, dtype=np.float32)),
    "of numbers that are computed": (lambda x: np.fft.fft(np.exp(x) * x) + x, numbers(2, 7)),
    "filtered": (lambda x, w: np.fft.irfft(np.fft.rfft(x) * w), real(2, 8), real(5)),
    "gradient of fft": (energy(np.fft.fft), real(3, 7), real(7)),
    "gradient of rfft": (energy(np.fft.rfft), real(3, 7), real(4)),
    "gradient of irfft": (energy(lambda x: np.fft.irfft(x * 1j)), real(3, 5), real(8)),
    "mapped": (vmap(lambda x: np.fft.fft(x) * x), numbers(3, 7)),
    "complex numbers that are no part of a transform": (lambda x: np.fft.fft(x).imag, numbers(7)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_numpy_gives(name):
    function, *operands = FUNCTIONS[name]
    made = planned(function, *operands)
    assert calls(made)
    assert verify(made) == 0
    (found,), status = evaluate_plan(made, list(map(in_parts, operands)), shuffled(0))
    wanted = in_parts(function(*operands))
    assert status == 0 and (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    rounding = 1e-5 if wanted.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found, wanted, rtol=rounding, atol=rounding * np.abs(wanted).max())


def test_a_transform_of_an_argument_is_one_call():
    (step,) = planned(np.fft.fft, numbers(3, 5000), on=LIBRARY).steps
    assert isinstance(step.kernel.body[0], Call)


@pytest.mark.parametrize(
    ("shape", "axis", "taken"),
    [
        ((2048,), 0, True),
        ((2047,), 0, True),  # 23 x 89
        ((1024,), 0, False),
        ((3, 4096), 1, True),
        ((4096, 70), 0, True),
        ((64, 4096, 70), 1, True),
        # a call for each of 65 arrays
        ((65, 4096, 70), 1, False),
        ((17,), 0, True),
        ((0, 4096), 1, False),
    ],
)
def test_long_transforms_are_taken_and_those_that_have_no_kernel(shape, axis, taken):
    graph = jit(lambda x: np.fft.fft(x, axis=axis)).lower(np.zeros(shape, complex)).graph()
    made = with_library_transforms(graph, LIBRARY)
    assert any(eqn.primitive is library_fft_p for eqn in made.eqns) == taken
    for other in (CPU, CUDA):
        assert with_library_transforms(graph, other) is graph


def test_inside_of_loops_there_are_no_calls():
    def transformed(x):
        return lax.scan(lambda c, _: (np.fft.fft(c).real, None), x, None, length=2)[0]

    assert not calls(planned(transformed, real(12)))
    # with prime factors that have no butterflies
    assert not calls(planned(transformed, real(17)))
