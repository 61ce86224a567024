"""Suggestions for misspelt names, in messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is spelled most like `name`, for a "did you mean".

    Parameters
    ----------
    name : str
        What was written.
    candidates : iterable of str
        What could have been meant.

    Returns
    -------
    str or None
        The most similar candidate, or None if none is similar.

    Examples
    --------
    >>> nearest("cumsun", ["sum", "cumsum", "prod"])
    'cumsum'
    >>> nearest("hilbert", ["sum", "cumsum", "prod"])
    """
    found = get_close_matches(name, list(candidates), n=1)
    return found[0] if found else None
