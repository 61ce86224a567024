"""Comparison of pytrees: the first difference of two structures, in words."""

from optree import PyTreeKind, PyTreeSpec

from functrans.errors import TreeMismatchError

#: The structure of a pytree, without its leaves: hashable, comparable, printable.
Structure = PyTreeSpec

_DICTS = (PyTreeKind.DICT, PyTreeKind.ORDEREDDICT, PyTreeKind.DEFAULTDICT)
_SEQUENCES = (PyTreeKind.TUPLE, PyTreeKind.LIST, PyTreeKind.DEQUE)
_MAX_KEYS = 6  # the most keys of a dict that a message shows


def check_same_structure(
    expected: Structure, found: Structure, *, what: str = "the pytree"
) -> None:
    """Raise `TreeMismatchError` unless two structures are the same.

    Parameters
    ----------
    expected, found : Structure
        The structure that is required, and the one that was given.
    what : str, optional
        The name of the tree in the message.

    Examples
    --------
    >>> from functrans import tree
    >>> expected = tree.structure({"a": 1, "b": (2, [3, 4])})
    >>> found = tree.structure({"a": 1, "b": (2, (3, 4))})
    >>> tree.check_same_structure(expected, found, what="the carry")
    Traceback (most recent call last):
    ...
    functrans.errors.TreeMismatchError: the carry has the wrong structure: \
at ['b'][1]: expected a list of 2, found a tuple of 2
    """
    # Equal structures are the common case, which takes one comparison in C++.
    if expected != found:
        raise TreeMismatchError(f"{what} has the wrong structure: {difference(expected, found)}")


def difference(expected: Structure, found: Structure, *, prefix: bool = False) -> str | None:
    """Describe the first position at which two structures differ, and what each has there.

    Parameters
    ----------
    expected, found : Structure
        What there should be, and what there is.
    prefix : bool, optional
        Whether a leaf of `expected` stands for any subtree of `found`.

    Returns
    -------
    str or None
        The first difference, from left to right; None if there is none.

    Examples
    --------
    >>> from functrans import tree
    >>> tree.difference(tree.structure({"w": 1, "b": 2}), tree.structure({"w": 1}))
    "at ['b']: expected a leaf, found no such key"
    >>> tree.difference(tree.structure((1, 2)), tree.structure((1, [2])), prefix=True) is None
    True
    """
    return _difference(expected, found, "", prefix)


def _difference(expected: Structure, found: Structure, path: str, prefix: bool) -> str | None:
    if expected == found or (prefix and expected.is_leaf()):
        return None
    if expected.kind in _DICTS and found.kind in _DICTS and (prefix or expected.type is found.type):
        inner = _key_difference(expected, found, path, prefix)
        if inner is not None or prefix:
            return inner
        # The keys are the same: OrderedDicts differ in order, or defaultdicts in their default.
    elif expected.one_level() == found.one_level():
        children = zip(_accesses(expected), expected.children(), found.children(), strict=True)
        differences = (_difference(a, b, path + access, prefix) for access, a, b in children)
        return next((text for text in differences if text is not None), None)
    wanted, got = described(expected), described(found)
    if wanted == got:  # the difference is in the static data of a class
        wanted, got = printed(expected.one_level()), printed(found.one_level())
    if wanted == got:  # a notebook cell run again makes another class of the same name
        got += ", of another class of that name"
    return f"{_at(path)}expected {wanted}, found {got}"


def _key_difference(expected: Structure, found: Structure, path: str, prefix: bool) -> str | None:
    mine = dict(zip(expected.entries(), expected.children(), strict=True))
    theirs = dict(zip(found.entries(), found.children(), strict=True))
    for key in mine | theirs:
        inner_path = f"{path}[{key!r}]"
        if key not in theirs:
            return f"{_at(inner_path)}expected {described(mine[key])}, found no such key"
        if key not in mine:
            return f"{_at(inner_path)}expected no such key, found {described(theirs[key])}"
        inner = _difference(mine[key], theirs[key], inner_path, prefix)
        if inner is not None:
            return inner
    return None


def _accesses(structure: Structure) -> list[str]:
    """The expressions, after a tree's name, that select the children at a structure's top level."""
    top = structure.one_level()
    return [] if top is None else [access.codify("") for access in top.accessors()]


def printed(structure: Structure | None) -> str:
    """Return a structure as `optree` prints it, without the class and namespace around it."""
    if structure is None:
        return "*"
    text = str(structure).removeprefix("PyTreeSpec(").removesuffix(")")
    return text.removesuffix(f", namespace={structure.namespace!r}")


def _at(path: str) -> str:
    return f"at {path}: " if path else ""


def described(structure: Structure) -> str:
    """Describe the top level of a structure: "a tuple of 2"."""
    if structure.type is None:
        return "a leaf"
    if structure.kind is PyTreeKind.NONE:
        return "None"
    name, size = structure.type.__name__, structure.num_children
    if structure.kind not in _DICTS + _SEQUENCES:
        return f"{_article(name)} {name}"
    if size == 0:
        return f"an empty {name}"
    if structure.kind in _SEQUENCES:
        return f"{_article(name)} {name} of {size}"
    keys = [repr(key) for key in structure.entries()]
    shown = keys if size <= _MAX_KEYS else [*keys[: _MAX_KEYS - 1], "..."]
    return f"{_article(name)} {name} with {'key' if size == 1 else 'keys'} {', '.join(shown)}"


def _article(noun: str) -> str:
    return "an" if noun[0].lower() in "aeiou" else "a"
