"""Products of windows are convolutions, and so are their derivatives."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from functrans import grad, jit

rng = np.random.default_rng(0)


def by_einsum(x, k):
    return np.einsum("nchwij,ocij->nohw", sliding_window_view(x, k.shape[2:], axis=(2, 3)), k)


def by_tensordot(x, k):
    seen = sliding_window_view(x, k.shape[2:], axis=(2, 3))
    return np.tensordot(seen, k, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)


def behind_a_transpose(x, k):
    seen = sliding_window_view(np.sin(x).transpose(0, 2, 3, 1), k.shape[2:], axis=(1, 2))
    return np.einsum("nhwcij,ocij->nhwo", seen, k)


def by_groups(x, k):
    """Each channel with a kernel of its own: a stack of products."""
    seen = sliding_window_view(x, k.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nochw", seen, k)


def along_one_axis(x, k):
    seen = sliding_window_view(x, k.shape[3], axis=3)
    return np.einsum("nchwj,oj->nochw", seen, k[:, 0, 0])


FORMS = [by_einsum, by_tensordot, behind_a_transpose, by_groups, along_one_axis]
SHAPES = [
    ((2, 8, 17, 21), (12, 8, 3, 3)),
    ((3, 4, 30, 19), (9, 4, 2, 5)),
    ((1, 17, 9, 40), (8, 17, 4, 1)),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_what_numpy_says(form, shape):
    x, k = (rng.standard_normal(each) for each in shape)
    np.testing.assert_allclose(jit(form)(x, k), form(x, k), atol=1e-10)
    given = rng.standard_normal(form(x, k).shape)
    pulled = grad(lambda x, k: np.sum(form(x, k) * given), argnums=(0, 1))
    found = jit(pulled)(x, k)
    for one, other in zip(found, pulled(x, k), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    # linear in each operand: along a direction, without our own derivatives
    for n, one in enumerate(found):
        direction = rng.standard_normal(one.shape)
        if form is not behind_a_transpose or n == 1:
            moved = form(*(direction if m == n else each for m, each in enumerate((x, k))))
            np.testing.assert_allclose(np.sum(one * direction), np.sum(moved * given))


@pytest.mark.dear
@pytest.mark.parametrize("form", [by_einsum, by_tensordot])
def test_windows_are_not_in_memory(form):
    x, k = rng.standard_normal((4, 16, 40, 40)), rng.standard_normal((24, 16, 5, 5))
    loss = lambda x, k: np.sum(form(x, k) ** 2)  # noqa: E731
    for function in (form, grad(loss, argnums=(0, 1))):
        lowered = jit(function).lower(x, k)
        assert "= windows" not in lowered.stages().split("== materialisation")[0]
        assert "overlap_add" not in lowered.stages()
        # those of all places have 25 times the size of the images
        assert lowered.cost().temporary_bytes < 12 * x.nbytes


MEANS = {
    "of one axis": (lambda x: sliding_window_view(x, 9).mean(-1), (300,)),
    "of few positions": (lambda x: sliding_window_view(x, 20).mean(-1), (25,)),
    "every third": (lambda x: sliding_window_view(x, 9)[::3].mean(-1), (301,)),
    "of the first axis": (lambda x: sliding_window_view(x, 5, axis=0).mean(-1), (40, 30)),
    "of two axes": (lambda x: sliding_window_view(x, (3, 4)).mean((-1, -2)), (40, 30)),
    "with steps": (lambda x: sliding_window_view(x, (3, 4))[::2, ::3].mean((-1, -2)), (40, 30)),
    "of one of two": (lambda x: sliding_window_view(x, (3, 4)).mean(-1), (40, 30)),
}


@pytest.mark.parametrize("name", MEANS)
def test_derivatives_of_means_of_windows(name):
    means, shape = MEANS[name]
    x = rng.standard_normal(shape)
    pulled = grad(lambda x: np.sum(means(x) ** 2))
    np.testing.assert_allclose(jit(pulled)(x), pulled(x), rtol=1e-12, atol=1e-14)


def test_what_all_taps_share_is_stored_once():
    means, _ = MEANS["of one axis"]
    schedule = jit(grad(lambda x: np.sum(means(x) ** 2))).lower(np.zeros(3000)).schedule()
    assert "t0: float64[2992] in the arena" in schedule
