"""Slices of arrays that are written slice by slice are read from what was written."""

import numpy as np
import pytest

from functrans import grad, jit, lax, value_and_grad, vmap
from functrans.optimise.machine.slice_forwarding import forward_slices
from tests.ir.written import graph
from tests.optimise.machine.rewrites import becomes, names, rewritten, stays


def test_reads_go_to_the_old_array_or_to_what_replaced_the_slice():
    becomes(
        forward_slices,
        """{ a:f64[4,3], b:f64[3] ->
          c:f64[4,3] = update_slice[index=(1, (0, 3, 1))] a b
          d:f64[3] = slice[index=(2, (0, 3, 1))] c
          e:f64[4,3] = update_slice[index=(2, (0, 3, 1))] c d
          f:f64[3] = slice[index=(1, (0, 3, 1))] e
          g:f64[2] = slice[index=(1, (2, 2, -2))] e
          return f, g }""",
        """{ a:f64[4,3], b:f64[3] ->
          g:f64[2] = slice[index=((2, 2, -2),)] b
          return b, g }""",
    )


def test_a_row_of_the_cotangent_is_written_once():
    # the derivative of a step that replaces two rows, and reads the old ones
    becomes(
        forward_slices,
        """{ a:f64[4,3] ->
          b:f64[3] = absent[shape=(3,), dtype=np.dtype('float64')]
          c:f64[4,3] = update_slice[index=(1, (0, 3, 1))] a b
          d:f64[3] = slice[index=(1, (0, 3, 1))] a
          e:f64[4,3] = update_slice[index=(0, (0, 3, 1))] c b
          f:f64[3] = slice[index=(0, (0, 3, 1))] c
          g:f64[3] = multiply d f
          h:f64[4,3] = embed[index=(1, (0, 3, 1)), shape=(4, 3)] g
          i:f64[4,3] = add e h
          j:f64[4,3] = embed[index=(0, (0, 3, 1)), shape=(4, 3)] d
          k:f64[4,3] = add i j
          return k }""",
        """{ a:f64[4,3] ->
          d:f64[3] = slice[index=(1, (0, 3, 1))] a
          f:f64[3] = slice[index=(0, (0, 3, 1))] a
          g:f64[3] = multiply d f
          x:f64[4,3] = update_slice[index=(1, (0, 3, 1))] a g
          k:f64[4,3] = update_slice[index=(0, (0, 3, 1))] x d
          return k }""",
    )


def test_what_is_partly_overwritten_is_read_from_the_array():
    stays(
        forward_slices,
        """{ a:f64[6], b:f64[3] ->
          c:f64[6] = update_slice[index=((1, 3, 1),)] a b
          d:f64[3] = slice[index=((2, 3, 1),)] c
          return d }""",
    )
    # of every second element, one is in the replaced slice, and one is not
    stays(
        forward_slices,
        """{ a:f64[6], b:f64[2] ->
          c:f64[6] = update_slice[index=((0, 2, 1),)] a b
          d:f64[3] = slice[index=((0, 3, 2),)] c
          return d }""",
    )


def test_each_version_of_an_array_keeps_its_elements():
    made = rewritten(
        forward_slices,
        graph("""{ a:f64[3], b:f64[] ->
          c:f64[3] = update_slice[index=(0,)] a b
          d:f64[3] = update_slice[index=(0,)] c 2.0
          e:f64[3] = update_slice[index=(0,)] c 3.0
          f:f64[] = slice[index=(0,)] a
          g:f64[] = slice[index=(0,)] c
          h:f64[] = slice[index=(0,)] d
          i:f64[] = slice[index=(0,)] e
          return f, g, h, i }"""),
    )
    assert names(made) == ["slice"]


def test_most_of_an_array_is_read_from_the_array():
    # as the interior of a grid: by itself, it would be stored a second time
    stays(
        forward_slices,
        """{ a:f64[9], b:f64[7] ->
          c:f64[9] = update_slice[index=((1, 7, 1),)] a b
          d:f64[7] = slice[index=((1, 7, 1),)] c
          e:f64[7] = sin d
          return c, e }""",
    )


def test_a_join_that_only_slices_read():
    text = """{ a:f64[3], b:f64[3] ->
      c:f64[1,3] = reshape[shape=(1, 3)] a
      d:f64[2,3] = broadcast_to[shape=(2, 3)] b
      e:f64[3,3] = concatenate[axis=0] c d
      f:f64[3] = slice[index=(0, (0, 3, 1))] e
      g:f64[3] = slice[index=(2, (0, 3, 1))] e
      h:f64[3] = update_slice[index=(0,)] f 2.0
      i:f64[3] = multiply g h
      return i, RESULT }"""
    assert "concatenate" not in names(rewritten(forward_slices, graph(text.replace("RESULT", "f"))))
    assert "concatenate" in names(rewritten(forward_slices, graph(text.replace("RESULT", "e"))))


def entry(rng, extent):
    first, last = sorted(rng.integers(0, extent + 1, 2).tolist())
    number = int(rng.integers(-extent, extent))
    backwards = slice(last, first, -1)
    kinds = number, slice(None), slice(None, None, -1), slice(first, last, 2), backwards
    return kinds[rng.integers(5)]


def drawn(rng, shape):
    """A program that updates copies of its state at overlapping slices, and reads older ones."""
    steps = []
    for _ in range(rng.integers(3, 14)):
        rows = (int(rng.integers(-shape[0], shape[0])),)
        own, other = (
            rows if rng.random() < 0.5 else tuple(entry(rng, n) for n in shape) for _ in range(2)
        )
        steps.append((int(rng.integers(5)), own, other, int(rng.integers(4)), rng.normal()))

    def run(state, w):
        states, total = [state], 0.0
        for kind, own, other, number, factor in steps:
            before = states[number % len(states)]
            after = before.copy()
            value = np.tanh(before[other] * factor) + np.mean(w)
            if kind == 0:
                total = total + np.sum(np.sin(before[own]) * factor)
            elif kind == 1:
                after[own] *= factor
            elif kind == 2:
                after[own] += np.mean(w) * factor
            elif value.shape == before[own].shape:
                after[own] = value
            else:
                after[own] = before[own] * 0.5 + np.sum(value) * 0.1
            states = [*states[-3:], after]
        return np.tanh(states[-1] + states[0] * 0.1), total

    return run


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_programs_that_update_copies_of_their_state(seed):
    rng = np.random.default_rng(seed)
    shape = [(20, 7), (9, 70), (12, 9), (3, 4, 5)][seed % 4]
    run, x, w = drawn(rng, shape), rng.normal(size=shape), rng.normal(size=5)

    def unrolled(x, w):
        total = 0.0
        for k in range(1, 3):
            x, more = run(x, w * float(k))
            total = total + more
        return np.sum(x * x) + total

    def scanned(x, w):
        last, totals = lax.scan(lambda c, k: run(c, w * k), x, np.arange(1.0, 3.0))
        return np.sum(last * last) + np.sum(totals)

    # without a compiler, each equation is evaluated by NumPy
    wanted, slopes = value_and_grad(unrolled, (0, 1))(x, w)
    value, found = jit(value_and_grad(scanned, (0, 1)))(x, w)
    np.testing.assert_allclose(value, wanted, rtol=1e-10)
    np.testing.assert_allclose(found[0], slopes[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], slopes[1], rtol=1e-9, atol=1e-9)
    if seed % 2:
        rows = jit(vmap(grad(unrolled), in_axes=(0, None)))(np.stack([x, -x]), w)
        np.testing.assert_allclose(rows[0], slopes[0], rtol=1e-9, atol=1e-9)


def layers(state, x):
    """A step that replaces all rows of a copy of its state, in pairs."""
    after = state.copy()
    for k in range(0, len(state), 2):
        cell = np.tanh(after[k + 1] + x * after[k])
        x = cell * np.cos(x)
        after[k], after[k + 1] = x, cell
    return after, np.sum(x)


def test_a_step_that_replaces_rows_does_not_copy_its_state():
    state = np.random.default_rng(0).normal(size=(20, 7))

    def total(state):
        return np.sum(lax.scan(layers, state, np.linspace(0.0, 1.0, 5))[1])

    slope, step = jit(grad(total)), 1e-6
    # the state and its cotangent: old and new, and no versions in between
    assert slope.lower(state).schedule().count("float64[20, 7]") <= 4
    direction = np.cos(np.arange(140.0)).reshape(20, 7)
    ends = [jit(total)(state + sign * step * direction) for sign in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(np.sum(slope(state) * direction), expected, rtol=1e-7)
