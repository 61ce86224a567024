"""Broadcasting to fewer axes raises as in NumPy, although an assignment would drop unit axes."""

import numpy as np
import pytest

from functrans import grad, jit, jvp
from functrans.errors import ShapeError


@pytest.mark.parametrize("n", [0, 1, 3, 2600])
def test_fewer_axes(n):
    def loss(x):
        return np.sum(np.broadcast_to(x[None], (n,)))

    x = np.ones(n)
    for call in (grad(loss), jit(loss), lambda x: jvp(loss, (x,), (x,))):
        with pytest.raises(ShapeError, match=r"in broadcast_to at test_broadcast\.py:13") as found:
            call(x)
        assert str(found.value).startswith(
            f"cannot broadcast an array of shape (1, {n}) to shape ({n},)"
        )
