"""What a user's object has, whatever its ``__getattr__`` raises for what it has not.

Python takes an AttributeError for an answer, and nothing else: a class whose ``__getattr__`` looks
in a dictionary raises KeyError.
"""

from typing import Any


def probe(x: Any, name: str, default: Any = None) -> Any:
    """An attribute of an object, or a default where it has none."""
    try:
        return getattr(x, name, default)
    except Exception:
        return default
