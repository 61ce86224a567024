"""Claims of the documentation that no example on the page demonstrates: one test for each."""

import re
import threading
import warnings

import numpy as np
import pytest

import functrans
from functrans import (
    Aval,
    callback,
    checkpoint,
    custom_vjp,
    debug,
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
    trace,
    tree,
    value_and_grad,
    vjp,
    vmap,
)
from functrans import numpy as fnp
from functrans.errors import MutationError, PathLimitError, TracerBoolError

X = np.array([0.5, -1.0, 2.0])


# ---- transforms.md -------------------------------------------------------------------------------


def test_none_is_a_tree_without_leaves():
    assert tree.leaves({"a": None, "b": 1.0}) == [1.0]
    assert grad(lambda p: p["b"] ** 2)({"a": None, "b": 1.0}) == {"a": None, "b": 2.0}


@pytest.mark.parametrize("transform", [grad, jacfwd, jacrev, hessian])
def test_argnums_may_be_negative_or_several(transform):
    def f(a, b):
        return np.sum(a * b**2)

    one, both = transform(f, argnums=-1)(X, X), transform(f, argnums=(0, 1))(X, X)
    np.testing.assert_allclose(one, both[1][1] if transform is hessian else both[1])


def test_other_arguments_may_be_anything():
    def f(x, mode, function, count):
        return np.sum(function(x)) * count if mode == "many" else 0.0

    np.testing.assert_allclose(grad(f)(X, "many", np.sin, 3), 3 * np.cos(X))


def test_transforms_are_decorators_and_keep_name_docstring_and_signature():
    @vmap(in_axes=(0, None))
    def scaled(x, factor):
        """Scale."""
        return x * factor

    assert scaled.__name__ == "scaled"
    assert scaled.__doc__ == "Scale."
    np.testing.assert_array_equal(scaled(X, 2.0), 2 * X)


def test_aux_may_be_any_pytree_and_comes_last():
    def f(x):
        return np.sum(x**2), {"twice": 2 * x, "nothing": None}

    value, _, aux = vjp(f, X, has_aux=True)
    assert value == np.sum(X**2)
    np.testing.assert_array_equal(aux["twice"], 2 * X)
    np.testing.assert_array_equal(jvp(f, (X,), (X,), has_aux=True)[2]["twice"], 2 * X)
    np.testing.assert_array_equal(linearize(f, X, has_aux=True)[2]["twice"], 2 * X)
    for transform in (grad, jacfwd, jacrev, hessian):
        np.testing.assert_array_equal(transform(f, has_aux=True)(X)[1]["twice"], 2 * X)


def test_integers_among_the_arguments_have_gradients_of_float0():
    found = grad(lambda p: p["x"] ** 2 * p["n"], allow_int=True)({"x": 3.0, "n": 2})
    assert found["x"] == 12.0
    assert found["n"].dtype == functrans.float0


def test_a_pullback_may_be_called_often_and_mapped():
    _, pullback = vjp(np.sin, X)
    for ct in (X, 2 * X):
        np.testing.assert_allclose(pullback(ct)[0], np.cos(X) * ct)
    _, pullbacks = vmap(lambda x: vjp(np.sin, x))(X)
    np.testing.assert_allclose(vmap(lambda f, ct: f(ct))(pullbacks, X)[0], np.cos(X) * X)


def test_examples_of_linear_transpose_are_types():
    (back,) = linear_transpose(lambda x: 3.0 * x, Aval((2,), np.float64))(np.ones(2))
    np.testing.assert_array_equal(back, [3.0, 3.0])


def test_keyword_arguments_are_mapped_over_their_first_axis():
    found = vmap(lambda x, y: x * y, in_axes=(None,))(2.0, y=X)
    np.testing.assert_array_equal(found, 2 * X)


def test_chunks_of_jacobians():
    for transform in (jacfwd, jacrev):
        np.testing.assert_allclose(transform(np.sin, chunk_size=2)(X), np.diag(np.cos(X)))


def test_hvp_of_a_function_with_a_rule_for_reverse_mode():
    @custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))
    np.testing.assert_allclose(hvp(lambda x: np.sum(cube(x)))(X, X), 6 * X * X)
    np.testing.assert_allclose(hessian(cube)(2.0), 12.0)


def test_policies_keep_primitives_by_name():
    block = checkpoint(lambda x: np.tanh(np.exp(x)), policy=["exp"])
    np.testing.assert_allclose(
        grad(lambda x: block(block(x)))(0.3),
        grad(lambda x: np.tanh(np.exp(np.tanh(np.exp(x)))))(0.3),
    )


def test_static_arguments_must_be_hashable():
    with pytest.raises(TypeError, match="hash"):
        jit(lambda x, n: x * len(n), static_argnums=1)(1.0, [1, 2])


def test_what_cannot_be_donated_is_left_as_it_is():
    whole = np.ones(6)
    f = jit(lambda x: x * 2.0, donate_argnums=0)
    np.testing.assert_array_equal(f(whole[1:4]), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(whole, np.ones(6))
    kept = np.ones(3)
    kept.flags.writeable = False
    f(kept)
    np.testing.assert_array_equal(kept, np.ones(3))


def test_a_callback_is_called_for_each_example_or_for_all():
    for mode, count in ((None, 3), ("batched", 1)):
        seen = []

        def host(x, seen=seen):
            seen.append(np.shape(x))
            return np.asarray(x) * 2.0

        options = {} if mode is None else {"vmap": mode}
        f = callback(host, lambda x: x, **options)
        np.testing.assert_array_equal(vmap(f)(X), 2 * X)
        assert len(seen) == count


def test_a_program_that_calls_python_has_no_file(tmp_path):
    f = callback(lambda x: x, Aval((), float))
    with pytest.raises(Exception, match="consists of Python's code"):
        functrans.save(f, tmp_path / "f.functrans", 1.0)


def test_shapes_may_be_arguments_of_trace_and_lower():
    aval = functrans.eval_shape(np.sin, X)
    assert str(trace(np.cos)(aval)).startswith("{ a:f64[3] ->")
    assert "cos" in str(jit(np.cos).lower(aval).graph())
    lowered = jit(lambda p, n: p["x"] @ p["x"] * n, static_argnums=1).lower({"x": aval}, 3)
    assert lowered.schedule()
    with pytest.raises(TracerBoolError):
        jit(lambda x: x if x[0] > 0 else -x).lower(aval)


# ---- numpy.md ------------------------------------------------------------------------------------


def test_a_python_number_takes_the_dtype_of_the_array():
    assert jit(lambda x: x * 2.5)(X.astype(np.float32)).dtype == np.float32


def test_views_are_numpys():
    def f(x):
        y = x.copy()
        y.reshape(-1)  # not assigned to afterwards
        z = y[::2]
        z += 1.0
        return y

    np.testing.assert_array_equal(jit(f)(X), f(X))


def test_an_argument_is_not_assigned_to():
    def f(x):
        x[0] = 1.0
        return np.sum(x)

    with pytest.raises(MutationError, match="copy"):
        grad(f)(X)


def test_after_ravel_of_a_transpose_neither_is_assigned_to():
    def f(x):
        y = x.copy().T
        z = y.ravel()
        z[0] = 2.0
        return np.sum(y)

    with pytest.raises(MutationError, match="Take a copy"):
        jit(f)(np.ones((2, 3)))


def test_after_reshape_the_memory_is_shared_as_numpy_does():
    def f(x):
        y = x.copy()
        z = y.reshape(1, 3)
        y[0] = 2.0
        z[0, 1] = 5.0
        return np.sum(z) * y

    np.testing.assert_array_equal(jit(f)(X), f(X))


def test_x_at_for_plain_arrays():
    np.testing.assert_array_equal(fnp.at(X)[0].add(1.0), [1.5, -1.0, 2.0])


def test_an_index_out_of_bounds_raises():
    with pytest.raises(IndexError):
        jit(lambda x: x[5])(X)
    with pytest.raises(IndexError):
        jit(lambda x, i: x[i])(X, 5)


def test_other_threads_meet_numpys_functions():
    kinds = []

    def f(x):
        thread = threading.Thread(target=lambda: kinds.append(type(np.zeros(3))))
        thread.start()
        thread.join()
        return np.sum(np.zeros(3)) + x

    jit(f)(1.0)
    assert kinds == [np.ndarray]


# ---- sharp-bits.md, control-flow.md --------------------------------------------------------------


def test_there_are_sixteen_paths_unless_more_are_wanted():
    def f(x):
        while x > 1.0:
            x = x / 2
        return x

    limited, more = jit(f), jit(f, max_paths=40)
    with pytest.raises(PathLimitError, match="while x > 1"):
        for n in range(30):
            limited(2.0**n)
    for n in range(30):
        assert more(2.0**n) == 1.0


def test_a_where_computes_both_and_a_cond_one():
    def fails(x):
        raise AssertionError

    never = callback(fails, Aval((), float))
    found = vmap(lambda x: lax.cond(x > 9.0, never, lambda x: x, x))(X)
    np.testing.assert_array_equal(found, X)


def test_numbers_drawn_inside_are_constants_and_warn():
    f = jit(lambda x: x + np.random.default_rng().normal())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert f(1.0) == f(1.0)
    assert seen


def test_printing_in_a_jitted_function_comes_once(capsys):
    f = jit(lambda x: (print("traced"), x)[1])
    f(1.0), f(2.0)
    assert capsys.readouterr().out.count("traced") == 1


# ---- configuration.md ----------------------------------------------------------------------------


def test_bits_do_not_depend_on_the_number_of_threads():
    x = np.sin(np.arange(400_000.0))
    f = jit(value_and_grad(lambda x: np.sum(np.tanh(x) * x)))
    before, found = functrans.config.threads, []
    try:
        for count in (1, 2, 3):
            functrans.config.threads = count
            found.append(f(x))
    finally:
        functrans.config.threads = before
    for value, slope in found[1:]:
        assert value == found[0][0]
        np.testing.assert_array_equal(slope, found[0][1])


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="threads"):
        functrans.config.threads = 0
    with pytest.raises(AttributeError, match="thread"):
        functrans.config.thread = 2


# ---- debugging.md --------------------------------------------------------------------------------


def test_a_named_value_costs_nothing_in_compiled_code():
    named = jit(lambda x: np.sin(debug.name(x * 2, "h"))).lower(X).source()
    assert named == jit(lambda x: np.sin(x * 2)).lower(X).source()


def test_effects_come_once_for_the_forward_pass():
    seen = []

    def f(x):
        y = np.sin(x)
        debug.callback(lambda y: seen.append(float(y)), y)
        return y**2

    jit(grad(grad(f)))(1.0)
    assert seen == [np.sin(1.0)]


# ---- performance.md, coming-from-*.md ------------------------------------------------------------


def test_another_batch_size_finds_the_kernels():
    f = jit(lambda x: np.tanh(x) * 3.0 + x)
    f(np.ones(1000))
    f(np.ones(1001))
    last = str(debug.why_compiled(f)).splitlines()[-1]
    assert re.search(r"\(.*(in memory|on disk)", last)
    assert "compiled" not in last.split("(")[-1]


def test_code_may_be_run_by_numba_code():
    numba = pytest.importorskip("numba")
    slope = functrans.compile(grad(lambda x: np.sum(x**2)), X)
    assert numba.njit(lambda x: slope(x)[0])(X) == 1.0


def test_ties_share_the_derivative():
    assert grad(lambda x: np.maximum(x, 0.0))(0.0) == 0.5


def test_optax_is_a_pair_of_functions():
    optax = pytest.importorskip("optax")
    assert callable(optax.adam(0.1).init)
