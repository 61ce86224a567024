"""Checks for non-finite results of transformed functions that are not compiled.

`functrans.api.paths` checks the results of compiled functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.compile import Jitted, jit
from functrans.api.origins import is_bad, origin_of
from functrans.errors import NonFiniteError
from functrans.ir.observe import observer
from functrans.ir.primitive import current
from functrans.tree import core as tree


def checked(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    """The result of a transformed function's call, after checking its values.

    Raises `NonFiniteError` if the result contains a value that `functrans.config.check_values`
    excludes, and the arguments do not.
    """
    if current.get() is not None or observer.get() is not None:
        return result  # within another transformed function, that function's results are checked
    if not isinstance(function, Jitted) and any(map(is_bad, _arrays(result))):
        path, inputs = jit(function).path_of(args, kwargs)
        origin = origin_of(path.graph, inputs)
        if origin is not None:
            raise NonFiniteError(str(origin))
    return result


def _arrays(result: Any) -> list[Any]:
    return [x for x in tree.leaves(result) if isinstance(x, (np.ndarray, np.generic, float))]
