"""Programs written without functrans: their gradients agree with finite differences."""

import numpy as np
import pytest

from examples import draw
from functrans import value_and_grad


@pytest.mark.dear
@pytest.mark.parametrize("name", draw.UNMODIFIED.names)
def test_gradients(name):
    module = draw.UNMODIFIED.program(name)
    x = np.asarray(module.ARGUMENT, float)
    value, gradient = value_and_grad(module.objective)(module.ARGUMENT)
    np.testing.assert_allclose(value, module.objective(module.ARGUMENT), rtol=1e-7)
    direction = np.cos(np.arange(x.size)).reshape(x.shape)
    step = 1e-5 * max(1.0, float(np.max(np.abs(x)))) * direction
    ahead, behind = (module.objective((x + s * step)[()]) for s in (1, -1))
    expected = (ahead - behind) / 2
    np.testing.assert_allclose(np.sum(gradient * step), expected, rtol=2e-5, atol=1e-10)


@pytest.mark.parametrize("collection", [draw.UNMODIFIED, draw.GALLERY], ids=lambda c: c.folder)
def test_the_page_is_the_one_of_the_programs(collection):
    folder = draw.HERE / collection.folder
    assert (folder / "README.md").read_text(encoding="utf-8") == collection.page()
    for name in collection.names:
        assert (folder / f"{name}.png").stat().st_size < 60_000


def test_there_are_as_many_as_promised():
    assert len(draw.UNMODIFIED.names) == 13
    assert len(draw.GALLERY.names) >= 10
