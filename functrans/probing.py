"""Safe attribute tests on users' objects, whatever their ``__getattr__`` raises.

`hasattr` and `getattr` with a default handle only AttributeError, but a ``__getattr__`` that looks
names up in a dictionary raises KeyError.
"""

from typing import Any


def probe(x: Any, name: str, default: Any = None) -> Any:
    """An attribute of an object, or a default where it has none."""
    try:
        return getattr(x, name, default)
    except Exception:
        return default
