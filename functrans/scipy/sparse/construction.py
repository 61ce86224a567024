"""Refusals: sparse matrices are not made of traced values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from functrans.scipy.entries import enter
from functrans.scipy.inside import refuse

_INSTEAD = (
    "sparse matrices hold constants; write the product itself, d[:, None] * x for a diagonal d, or "
    "y.at[rows].add(values * x[columns]), or make the matrix outside of the traced function"
)

_FUNCTIONS = "block_array block_diag bmat diags diags_array hstack kron kronsum spdiags vstack"

_CLASSES = "bsr_array coo_array csc_array csr_array dia_array dok_array lil_array"


def _function(name: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(f"scipy.sparse.{name}", _INSTEAD)

    return refused


def _constructor(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    refuse(f"scipy.sparse.{type(self).__name__}", _INSTEAD)


for _name in _FUNCTIONS.split():
    enter(f"scipy.sparse:{_name}", _function(_name))
for _name in _CLASSES.split():
    # several classes have one, those of matrices as well
    enter(f"scipy.sparse:{_name}.__init__", _constructor)
