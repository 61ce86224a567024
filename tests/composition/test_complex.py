"""Complex numbers under all transforms: conventions, control flow and pytrees."""

import warnings

import numpy as np
import pytest

from functrans import (
    checkpoint,
    custom_jvp,
    custom_vjp,
    errors,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    lax,
    linear_transpose,
    linearize,
    tree,
    value_and_grad,
    vjp,
    vmap,
)
from functrans.testing import check_grads

RNG = np.random.default_rng(3)
Z = RNG.normal(size=4) + 1j * RNG.normal(size=4)
X = RNG.normal(size=4)
A = RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4))

BOTH = pytest.mark.parametrize("wrapped", [lambda f: f, jit], ids=["eager", "jit"])


def close(found, expected, rtol=1e-12):
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


# -- conventions -----------------------------------------------------------------------------------


def polynomial(x, y):
    """A real function of two numbers, and its partial derivatives."""
    return x**2 * y - y**3 + x, (2 * x * y + 1, x**2 - 3 * y**2)


@BOTH
def test_a_gradient_is_the_derivative_by_x_less_1j_times_that_by_y(wrapped):
    def f(z):
        return polynomial(z.real, z.imag)[0]

    _, (by_x, by_y) = polynomial(0.7, -1.3)
    close(wrapped(grad(f))(0.7 - 1.3j), np.complex128(by_x - 1j * by_y))


@BOTH
def test_the_conjugate_of_a_gradient_is_the_way_up(wrapped):
    f = wrapped(value_and_grad(lambda z: np.sum(np.abs(A @ z - Z) ** 2)))
    z = np.zeros(4, complex)
    values = []
    for _ in range(5):
        value, slope = f(z)
        values.append(value)
        z = z - 0.01 * np.conj(slope)
    assert np.all(np.diff(values) < 0)


@BOTH
def test_a_holomorphic_function_has_a_complex_derivative(wrapped):
    close(wrapped(grad(np.exp, holomorphic=True))(0.3 + 1j), np.exp(0.3 + 1j))
    close(wrapped(jacrev(np.sin, holomorphic=True))(Z), np.diag(np.cos(Z)))
    close(wrapped(jacfwd(np.sin, holomorphic=True))(Z), np.diag(np.cos(Z)))
    cubes = wrapped(hessian(lambda z: np.sum(z**3), holomorphic=True))
    close(cubes(Z), np.diag(6 * Z))


def test_a_real_argument_may_have_complex_results_in_forward_mode():
    close(jacfwd(lambda x: np.exp(1j * x))(X), np.diag(1j * np.exp(1j * X)))


def test_a_complex_argument_may_have_real_results_in_reverse_mode():
    close(jacrev(lambda z: np.abs(z) ** 2)(Z), np.diag(2 * np.conj(Z)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_by_a_real_number_is_real(dtype):
    x = X.astype(dtype)
    slope = grad(lambda x: np.sum(np.abs(np.exp(1j * x) * (2 + 1j) + x) ** 2))(x)
    assert slope.dtype == dtype
    step = 1e-4

    def f(x):
        return np.abs(np.exp(1j * x) * (2 + 1j) + x) ** 2

    wide = X.astype(dtype).astype(np.float64)
    expected = (f(wide + step) - f(wide - step)) / (2 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-5)


def test_the_absolute_value_has_derivative_0_at_0():
    assert grad(abs)(0j) == 0
    assert grad(lambda z: np.sum(np.linalg.norm(z)))(np.zeros(3, complex)).tolist() == [0, 0, 0]
    slope = grad(lambda z: np.real(np.sum(np.sign(z))))(np.array([0j, 1 + 1j]))
    assert np.all(np.isfinite(slope))


def test_pairings_are_without_a_conjugate():
    (back,) = linear_transpose(lambda z: A @ z, Z)(Z)
    close(back, A.T @ Z)
    (back,) = linear_transpose(np.conj, Z)(Z)
    close(back, np.conj(Z))
    (back,) = linear_transpose(np.imag, Z)(X)
    close(back, -1j * X)
    (back,) = linear_transpose(lambda x: 2j * x, X)(Z)
    close(back, (2j * Z).real)


@pytest.mark.parametrize(
    "f",
    [
        lambda z: z * np.conj(z) + z.imag,
        lambda z: np.where(np.abs(z) > 1, z, z**2),
        lambda z: np.linalg.solve(A, z),
        lambda z: np.vdot(z, z[::-1]),
        lambda z: np.sort(z) * np.arange(4),
        lambda z: np.max(z) + np.prod(z),
        lambda z: np.cumsum(z)[::-1],
        lambda z: np.linalg.slogdet(A * z),
        lambda z: {"angle": np.angle(z), "z": z.astype(np.complex128)},
    ],
)
def test_derivatives_of_functions_that_are_not_holomorphic(f):
    check_grads(f, (Z,), order=2)


def test_forward_and_reverse_mode_give_the_same():
    def f(z):
        return np.exp(z) * np.conj(z) + np.abs(z)

    dz, ct = A[0], A[1]
    value, dots = jvp(f, (Z,), (dz,))
    also, push = linearize(f, Z)
    same, pull = vjp(f, Z)
    close(value, f(Z))
    close(also, value)
    close(same, value)
    close(push(dz), dots)
    (back,) = pull(ct)
    close(np.sum(ct * dots).real, np.sum(back * dz).real)


def test_a_hessian_times_a_vector():
    def f(z):
        return np.sum(np.abs(z) ** 4)

    step = 1e-5
    expected = (grad(f)(Z + step * A[0]) - grad(f)(Z - step * A[0])) / (2 * step)
    close(hvp(f)(Z, A[0]), expected, 1e-8)


# -- what carries values ---------------------------------------------------------------------------


@BOTH
def test_loops_carry_complex_numbers(wrapped):
    def orbit(c):
        def step(z, _):
            z = z * z + c
            return z, np.abs(z)

        return lax.scan(step, 0j * c, None, length=6)

    def in_python(c):
        z, sizes = 0j, []
        for _ in range(6):
            z = z * z + c
            sizes.append(abs(z))
        return z, np.array(sizes)

    c = -0.2 + 0.4j
    for found, expected in zip(wrapped(orbit)(c), in_python(c), strict=True):
        close(found, expected)
    found = wrapped(grad(lambda c: np.sum(orbit(c)[1])))(c)
    expected = grad(lambda c: sum(np.abs(s) for s in in_python_parts(c)))(c)
    close(found, expected)


def in_python_parts(c):
    z, parts = 0j, []
    for _ in range(6):
        z = z * z + c
        parts.append(z)
    return parts


@BOTH
def test_while_loops_and_branches_carry_complex_numbers(wrapped):
    def newton(z):
        # the cube root of 1 that the iteration finds
        return lax.while_loop(
            lambda z: np.abs(z**3 - 1) > 1e-13, lambda z: z - (z**3 - 1) / (3 * z**2), z
        )

    close(wrapped(newton)(-1 + 1j), np.exp(2j * np.pi / 3), 1e-9)

    def folded(z):
        return lax.cond(z.imag < 0, np.conj, lambda z: z * 1j, z)

    for z in (1 - 2j, 1 + 2j):
        close(wrapped(folded)(z), np.complex128(1 + 2j if z.imag < 0 else 1j * z))
    close(wrapped(vmap(folded))(Z), np.where(Z.imag < 0, np.conj(Z), 1j * Z))
    close(
        wrapped(grad(lambda z: np.sum(vmap(folded)(z).real)))(Z),
        np.where(Z.imag < 0, 1, 1j).astype(complex),
    )


@BOTH
def test_vmap_maps_complex_numbers(wrapped):
    f = wrapped(vmap(lambda a, z: a @ z, in_axes=(None, 0)))
    close(f(A, A), np.stack([A @ row for row in A]))
    close(wrapped(vmap(grad(lambda z: np.abs(z) ** 2)))(Z), 2 * np.conj(Z))


@BOTH
def test_custom_rules(wrapped):
    @custom_jvp
    def f(z):
        return z**2

    @f.defjvp
    def rule(primals, tangents):
        (z,), (dz,) = primals, tangents
        return f(z), 3j * z * dz

    close(wrapped(grad(f, holomorphic=True))(1 + 1j), np.complex128(3j * (1 + 1j)))

    @custom_vjp
    def g(x, z):
        return x * z

    g.defvjp(lambda x, z: (x * z, (x, z)), lambda saved, ct: ((ct * saved[1]).real, ct * 2j))
    by_x, by_z = wrapped(grad(lambda x, z: g(x, z).real, argnums=(0, 1)))(2.0, 1 + 1j)
    close(by_x, np.float64(1))
    close(by_z, np.complex128(2j))


def test_a_rule_that_gives_a_complex_cotangent_of_a_real_number_is_told():
    @custom_vjp
    def g(x):
        return x * 1j

    g.defvjp(lambda x: (x * 1j, None), lambda _, ct: (ct,))
    with pytest.raises(errors.CustomRuleError, match=r"is complex at leaf 0, .* write \.real"):
        grad(lambda x: g(x).imag)(1.0)


@BOTH
def test_checkpoints(wrapped):
    f = checkpoint(lambda z: np.exp(1j * z) * z)
    expected = grad(lambda z: np.sum(np.abs(np.exp(1j * z) * z)))(Z)
    close(wrapped(grad(lambda z: np.sum(np.abs(f(z)))))(Z), expected)


def test_ravel_takes_complex_leaves():
    given = {"a": Z, "b": 2.0, "c": np.float32(1.5)}
    vector, unravel = tree.ravel(given)
    assert vector.dtype == np.complex128
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = unravel(vector * 2)
    close(back["a"], 2 * Z)
    close(back["b"], np.float64(4))
    close(back["c"], np.float32(3))


# -- compiled --------------------------------------------------------------------------------------


def test_what_goes_through_a_compiled_program_untouched():
    close(jit(lambda z: z)(Z), Z)
    close(jit(lambda z: z)(1j), np.complex128(1j))
    found, doubled = jit(lambda z, x: (z, 2 * x))(Z, X)
    close(found, Z)
    close(doubled, 2 * X)
    assert found is not Z


def test_arrays_in_any_layout():
    f = jit(lambda z: np.sum(z * np.conj(z)).real)
    for z in (A, A.T, A[::2, ::-1], A.astype(np.complex64), A.astype(">c16")):
        close(f(z), np.sum(z * np.conj(z)).real.astype(f(z).dtype), 1e-6)


# -- arrays that are assigned to -------------------------------------------------------------------


@BOTH
def test_parts_are_views(wrapped):
    def f(z):
        z = z.copy()
        z.real[1:3] = 7.0
        z.imag *= 2
        z.real = z.real + 1
        part = z.imag
        z[3] = 5j
        return z, part

    expected, part = f(Z)
    for found, value in zip(wrapped(f)(Z), (expected, part), strict=True):
        close(found, value)
    check_grads(lambda z: f(z)[0], (Z,), order=1)


def test_the_imaginary_part_of_real_numbers_cannot_be_assigned_to():
    def f(x):
        x = x * 1.0
        x.imag[0] = 1.0
        return x

    def g(x):
        x = x * 1.0
        x.imag = 1.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        jit(f)(X)
    with pytest.raises(TypeError, match="does not have imaginary part to set"):
        jit(g)(X)


def test_a_conversion_to_real_warns_and_drops_the_imaginary_part():
    def f(z):
        return np.sum(z.astype(float) ** 2)

    with pytest.warns(np.exceptions.ComplexWarning, match=r"discards the imaginary part") as told:
        close(grad(f)(Z), (2 * Z.real).astype(complex))
    assert told[0].filename == __file__

    def stores(z):
        x = np.zeros_like(z.real)
        x[:] = z
        return x

    with pytest.warns(np.exceptions.ComplexWarning):
        close(jit(stores)(Z), Z.real)


def test_real_if_close_asks_for_the_values():
    f = jit(lambda z: np.real_if_close(z))
    assert f(Z).dtype == np.complex128
    assert f(Z.real + 0j).dtype == np.float64
    with pytest.raises(errors.TracerBoolError):
        vmap(np.real_if_close)(Z)


# -- promotion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [X.astype(np.float32), X, np.arange(4), np.arange(4, dtype="i1"), Z])
@pytest.mark.parametrize("number", [1j, np.complex64(1j), np.complex128(1j), 2.5, True])
@pytest.mark.parametrize("wrapped", [jit, vmap])
def test_dtypes_are_promoted_as_numpy_promotes_them(x, number, wrapped):
    for f in (lambda x: x * number, lambda x: number + x, lambda x: np.power(x, number)):
        with np.errstate(all="ignore"):
            close(wrapped(f)(x), f(x), 1e-6)


@pytest.mark.parametrize(
    "function",
    [np.floor, np.ceil, np.cbrt, np.arctan2, np.hypot, np.fmod, np.remainder, np.signbit,
     np.deg2rad, np.logaddexp, np.copysign, np.heaviside, np.bitwise_and, np.fabs],
)  # fmt: skip
def test_what_numpy_refuses_is_refused(function):
    arguments = (Z,) * function.nin
    with pytest.raises(TypeError):
        function(*arguments)
    for transform in (jit, vmap):
        with pytest.raises(TypeError, match=f"{function.__name__} is not defined for complex128"):
            transform(function)(*arguments)


def test_a_complex_tracer_does_not_become_a_python_number():
    with pytest.raises(errors.TracerConversionError, match="a plain complex number"):
        jit(complex)(1j)
    with pytest.raises(errors.TracerConversionError, match="its derivative would be lost"):
        grad(lambda z: complex(z).real)(1j)
