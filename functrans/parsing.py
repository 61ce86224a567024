"""Python's parser, for one thread at a time.

CPython before 3.11.9 counts the depth of the trees of all threads together, and may give up with
a `SystemError` then (its issue 106905).
"""

from __future__ import annotations

import ast

from functrans.locks import lock

_parser = lock()


def parsed(source: str | bytes) -> list[ast.stmt]:
    """The statements of a text, as `ast.parse` finds them."""
    with _parser:
        return ast.parse(source).body
