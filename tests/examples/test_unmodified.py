"""Programs that know nothing of functrans: their gradients are those of finite differences."""

import numpy as np
import pytest

from examples.unmodified import draw
from functrans import value_and_grad


@pytest.mark.parametrize("name", draw.NAMES)
def test_gradients(name):
    module = draw.program(name)
    x = np.asarray(module.ARGUMENT, float)
    value, gradient = value_and_grad(module.objective)(module.ARGUMENT)
    np.testing.assert_allclose(value, module.objective(module.ARGUMENT), rtol=1e-7)
    direction = np.cos(np.arange(x.size)).reshape(x.shape)
    step = 1e-5 * max(1.0, float(np.max(np.abs(x)))) * direction
    ahead, behind = (module.objective((x + s * step)[()]) for s in (1, -1))
    expected = (ahead - behind) / 2
    np.testing.assert_allclose(np.sum(gradient * step), expected, rtol=2e-5, atol=1e-10)


def test_the_page_is_the_one_of_the_programs():
    written = (draw.HERE / "README.md").read_text(encoding="utf-8")
    assert written == draw.page()
    for name in draw.NAMES:
        assert (draw.HERE / f"{name}.png").stat().st_size < 60_000


def test_there_are_as_many_as_promised():
    assert len(draw.NAMES) >= 12
