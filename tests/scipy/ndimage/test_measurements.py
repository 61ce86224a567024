"""Sums, means and centres of the labelled parts of traced images are SciPy's."""

import numpy as np
import pytest
import scipy.ndimage as scipys

from functrans import grad, jit
from functrans.errors import TracerIndexError
from functrans.scipy import ndimage as ours
from tests.scipy.comparison import check

IMAGE = np.random.default_rng(0).uniform(0.5, 2.0, size=(3, 4))
LABELS = np.array([[0, 1, 1, 5], [2, 2, 0, 5], [-1, 1, 2, 2]])
ASKED = [
    (None, None), (LABELS, None), (LABELS, 2), (LABELS, [1, 2]), (LABELS, np.array([5, 0, -1])),
    (LABELS[0], [1, 5]), (LABELS, [1]),
]  # fmt: skip


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("asked", range(len(ASKED)))
def test_like_scipy(asked, kind):
    labels, index = ASKED[asked]
    image = (3 * IMAGE).astype(kind)
    atol = 1e-6 if kind is np.float32 else 1e-10  # sums are of that dtype, and means are doubles
    for name in ("sum_labels", "mean"):
        check(lambda of, x, name=name: getattr(of, name)(x, labels, index), ours, scipys, [image],
              compiled=True, atol=atol)  # fmt: skip
    check(lambda of, x: np.asarray(of.center_of_mass(x, labels, index)) if of is scipys else
          np.stack([np.stack(each) if isinstance(each, tuple) else each
                    for each in of.center_of_mass(x, labels, index)]), ours, scipys, [image],
          compiled=True, atol=atol)  # fmt: skip


def test_labels_that_are_not_there_add_up_to_nothing():
    found = jit(lambda x: scipys.sum_labels(x, LABELS, [7, 1, -3]))(IMAGE)
    np.testing.assert_allclose(found, scipys.sum_labels(IMAGE, LABELS, [7, 1, -3]))


def test_an_alias_of_scipys():
    np.testing.assert_array_equal(grad(lambda x: scipys.sum(x, LABELS, 2))(IMAGE), LABELS == 2)


def test_traced_labels_are_refused():
    with pytest.raises(TracerIndexError, match="how many different"):
        jit(lambda x, k: scipys.sum_labels(x, k, [1, 2]))(IMAGE, LABELS)


def test_sums_of_several_labels_of_complex_images_are_refused():
    for name in ("sum_labels", "mean", "variance", "center_of_mass"):
        with pytest.raises(TypeError, match="weights of bincount are real"):
            jit(lambda x, name=name: getattr(scipys, name)(x * 1j, LABELS, [1, 2]))(IMAGE)


def test_deviations_of_equal_elements_have_derivative_0():
    image, labels = np.array([1.0, 1.0, 2.0, 3.0]), np.array([1, 1, 2, 2])

    def deviations(x):
        return ours.standard_deviation(x, labels, [1, 2])

    wanted = scipys.standard_deviation(image, labels, [1, 2])
    np.testing.assert_allclose(jit(deviations)(image), wanted)
    np.testing.assert_allclose(grad(lambda x: np.sum(deviations(x)))(image), [0.0, 0.0, -0.5, 0.5])
