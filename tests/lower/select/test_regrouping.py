"""Reshaped values are computed along the axes before the reshape, without index divisions."""

import numpy as np
import pytest

from functrans import grad, jit

EXTENTS = (0, 1, 2, 17, 300, 2600)


def joined(r, t):
    return np.concatenate([r, t], axis=2)


FORMS = {
    "join": lambda r, t: joined(r, t).reshape(-1),
    "some axes": lambda r, t: joined(r, t).reshape(-1, 4),
    "elementwise behind": lambda r, t: np.sin(joined(r, t).reshape(-1)) * 2.0,
    "elementwise in front": lambda r, t: (r * 2.0 + t).reshape(-1),
    "two": lambda r, t: (r + t).reshape(-1) * r.reshape(-1),
    "stack": lambda r, t: np.stack([r[:, 0, 0] * t[:, 0, 0], r[:, 1, 1]], axis=1).reshape(-1),
    "flat join": lambda r, t: np.concatenate(
        [joined(r, t).reshape(-1), t.reshape(-1) * 2, np.sin(r).transpose(0, 2, 1).reshape(-1)]
    ),
    "shifted across rows": lambda r, t: np.roll(r, 5),
    "sine of rows that are shifted": lambda r, t: np.sin(np.roll(r.reshape(-1, 9), -7)) * 2.0,
    "kept": lambda r, t: np.cumsum(joined(r, t).reshape(-1)),
    "kept and read twice": lambda r, t: (lambda x: np.exp(x) * np.cumsum(np.exp(x)))(
        joined(r, t).reshape(-1) - 9.0
    ),
    "rows of a sum": lambda r, t: np.sum(r[:, :, None] * t[:, None], axis=3).reshape(-1),
    "sum": lambda r, t: np.sum(np.sin(joined(r, t).reshape(-1))),
    "product": lambda r, t: joined(r, t).reshape(-1) @ np.cos(joined(r, t).reshape(-1)),
    "greatest": lambda r, t: np.max(joined(r, t).reshape(-1), initial=0.0),
}


def drawn(extent):
    rng = np.random.default_rng(extent)
    return rng.standard_normal((extent, 3, 3)), rng.standard_normal((extent, 3, 1))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_index_is_divided(form):
    kernels = jit(form).lower(*drawn(300)).stages().split("== kernel construction")[1]
    assert "//" not in kernels
    assert "%" not in kernels


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_results_and_gradients(form, extent):
    args = drawn(extent)
    np.testing.assert_allclose(jit(form)(*args), form(*args), rtol=1e-11, atol=1e-11)
    loss = lambda r, t: np.sum(np.sin(form(r, t)))  # noqa: E731
    both = zip(jit(grad(loss, (0, 1)))(*args), grad(loss, (0, 1))(*args), strict=True)
    for one, other in both:
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_elementwise_results_are_numpys_to_the_bit():
    args = drawn(300)
    for name in ("join", "elementwise in front", "two", "stack"):
        np.testing.assert_array_equal(jit(FORMS[name])(*args), FORMS[name](*args))


def test_an_input_is_overwritten_in_another_shape():
    r, t = drawn(300)
    wanted = (r * 2.0 + t).reshape(-1)
    np.testing.assert_array_equal(
        jit(lambda r, t: (r * 2.0 + t).reshape(-1), donate_argnums=0)(r.copy(), t), wanted
    )


def spread(x, ct):
    """The gradient of means of 2x2 windows of ``tanh(x)``."""
    n, c, h, w = ct.shape
    windows = np.broadcast_to(ct[:, :, :, None, :, None] / 4, (n, c, h, 2, w, 2))
    return windows.reshape(x.shape) * (1 - np.tanh(x) ** 2)


@pytest.mark.parametrize("side", [2, 8, 10, 14, 16, 24, 28, 34])
def test_vectors_go_along_the_windows_of_a_line(side):
    """And not along the lines, with the elements of each written out."""
    rng = np.random.default_rng(side)
    x, ct = (
        rng.standard_normal((20, 3, side, side)),
        rng.standard_normal((20, 3, side // 2, side // 2)),
    )
    np.testing.assert_allclose(jit(spread)(x, ct), spread(x, ct), rtol=1e-12)
    written = jit(spread).lower(x, ct).stages().split("== fusion")[0].split("== selection")[1]
    if 8 < side <= 32:
        assert written.count("out0[") == 4
