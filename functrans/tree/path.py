"""Key paths: the positions of leaves in a pytree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class KeyPath(str):
    """The path of a leaf: the expression that selects it, without the tree's name.

    It is a string, such as ``"['layers'][0].weight"``, with its ``keys`` as an attribute.

    Attributes
    ----------
    keys : tuple
        The keys of dicts, the numbers of sequences' items, the names of attributes.
    """

    keys: tuple[Any, ...]

    def __new__(cls, text: str, keys: Iterable[Any] = ()) -> KeyPath:
        path = super().__new__(cls, text)
        path.keys = tuple(keys)
        return path

    def __reduce__(self) -> Any:
        return KeyPath, (str(self), self.keys)


def keystr(path: Iterable[Any]) -> str:
    """A key path as a string: as `KeyPath` has it, or of plain keys.

    Parameters
    ----------
    path : KeyPath or iterable of keys

    Returns
    -------
    str

    Examples
    --------
    >>> from functrans import tree
    >>> tree.keystr(("w", 1))
    "['w'][1]"
    """
    return str(path) if isinstance(path, str) else "".join(f"[{key!r}]" for key in path)
