"""Flattening pytrees, rebuilding them, and applying functions to their leaves."""

import builtins
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from sys import modules
from typing import Any
from warnings import catch_warnings

import optree
from optree import PyTreeKind, register_pytree_node

from functrans.caches import cached
from functrans.errors import TreeMismatchError
from functrans.lazily import is_imported
from functrans.tree.compare import Structure, difference, printed
from functrans.tree.path import KeyPath

NAMESPACE = "functrans"

Flatten = Callable[[Any, Callable[[Any], bool] | None, bool, str], tuple[list[Any], Structure]]


def _public(
    tree: Any, is_leaf: Callable[[Any], bool] | None, none_is_leaf: bool, namespace: str
) -> tuple[list[Any], Structure]:
    return optree.tree_flatten(tree, is_leaf, none_is_leaf=none_is_leaf, namespace=namespace)


def _quickest() -> Flatten:
    """The C++ function itself, with positional arguments, if it behaves like the public one.

    optree's own wrapper and keyword arguments would take half as long again as flattening a small
    tree, which happens at every call.
    """
    private: Flatten | None = getattr(getattr(optree, "_C", None), "flatten", None)
    if private is None:
        return _public
    tree: Any = {"b": [1, None], "a": (2, {})}
    try:
        same = all(
            private(tree, is_leaf, False, NAMESPACE) == _public(tree, is_leaf, False, NAMESPACE)
            for is_leaf in (None, lambda node: isinstance(node, list))
        )
    except Exception:  # whatever another optree makes of it
        return _public
    return private if same else _public


_flatten = _quickest()

_PLAIN = frozenset({None, type(None), tuple, list, dict})
"""The types at the top of structures that are rebuilt as they are; None for a leaf."""


late: dict[str, Callable[[], object]] = {}
"""Functions that register the classes of modules that the user may import, by module name."""


def _make_late_ones() -> None:
    for name in list(late):
        if is_imported(name):
            make = late.pop(name, None)
            if make is not None:
                make()


def _constructs(structure: Structure) -> bool:
    """Whether a structure is a named tuple with a ``__new__`` beside the generated one.

    optree rebuilds it by calling the class with the children, so a ``__new__`` that converts or
    scales what it is given would do so again, to tracers and to gradients.
    """
    kind: Any = structure.type
    if structure.kind is not PyTreeKind.NAMEDTUPLE:
        return False
    return kind.__new__ is not kind.__mro__[kind.__mro__.index(tuple) - 1].__new__


@cached(1024)
def _is_rebuilt(structure: Structure) -> bool:
    """Whether optree rebuilds a structure as it is."""
    own = structure.type is OrderedDict or _constructs(structure)
    return not own and all(builtins.map(_is_rebuilt, structure.children()))


def _register_named_tuples(structure: Structure) -> bool:
    """Register the classes of named tuples that would not be rebuilt as they are; whether any."""
    new = _constructs(structure)
    if new:
        kind: Any = structure.type
        # another thread may have registered it; optree warns that it is a named tuple
        with suppress(ValueError), catch_warnings(action="ignore"):
            register_pytree_node(
                kind,
                lambda instance: (tuple(instance), kind, kind._fields),
                lambda _, children: tuple.__new__(kind, children),
                path_entry_type=optree.GetAttrEntry,
                namespace=NAMESPACE,
            )
    return any([new, *builtins.map(_register_named_tuples, structure.children())])


def _in_their_order(tree: Any, is_leaf: Callable[[Any], bool] | None) -> Any:
    """The tree with copies of its OrderedDicts, whose ``move_to_end`` optree does not notice."""

    def is_end(node: Any) -> bool:
        return type(node) is OrderedDict or (is_leaf is not None and is_leaf(node))

    def copied(x: Any) -> Any:
        if type(x) is not OrderedDict or (is_leaf is not None and is_leaf(x)):
            return x
        return OrderedDict((key, _in_their_order(value, is_leaf)) for key, value in x.items())

    found, structure = _flatten(tree, is_end, False, NAMESPACE)
    return structure.unflatten(builtins.map(copied, found))


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """Split a pytree into its leaves and its structure.

    Parameters
    ----------
    tree : pytree
        The tree to flatten.
    is_leaf : callable, optional
        Called with each node; where it returns True, the node is a leaf.

    Returns
    -------
    leaves : list
        The leaves, from left to right.
    structure : Structure
        The structure of the tree, without its leaves.

    Examples
    --------
    >>> from functrans import tree
    >>> leaves, structure = tree.flatten({"w": [1.0, 2.0], "b": 3.0})
    >>> leaves
    [3.0, 1.0, 2.0]
    >>> tree.unflatten(structure, leaves)
    {'w': [1.0, 2.0], 'b': 3.0}
    """
    if not late.keys().isdisjoint(modules.keys()):
        _make_late_ones()
    found = _flatten(tree, is_leaf, False, NAMESPACE)
    structure = found[1]
    # a leaf, or a container of leaves alone, is quickly told
    is_flat = structure.num_nodes <= structure.num_leaves + 1 and structure.type in _PLAIN
    if is_flat or _is_rebuilt(structure):
        return found
    if _register_named_tuples(structure):
        return flatten(tree, is_leaf)
    return _flatten(_in_their_order(tree, is_leaf), is_leaf, False, NAMESPACE)


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Put leaves into a structure: the inverse of `flatten`.

    Parameters
    ----------
    structure : Structure
        Where the leaves go.
    leaves : iterable
        As many leaves as the structure has places.

    Returns
    -------
    pytree
        A tree of that structure with those leaves.

    Examples
    --------
    >>> from functrans import tree
    >>> tree.unflatten(tree.structure({"w": [1.0, 2.0], "b": 3.0}), "xyz")
    {'w': ['y', 'z'], 'b': 'x'}
    """
    leaves = list(leaves)
    if len(leaves) != structure.num_leaves:
        raise TreeMismatchError(
            f"the structure has places for {structure.num_leaves} leaves, got {len(leaves)}: "
            f"{printed(structure)}"
        )
    return structure.unflatten(leaves)


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a pytree, from left to right.

    Parameters
    ----------
    tree : pytree
        The tree.
    is_leaf : callable, optional
        As for `flatten`.

    Examples
    --------
    >>> from functrans import tree
    >>> tree.leaves({"b": (1, None, [2]), "a": 3})
    [3, 1, 2]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Structure:
    """Return the structure of a pytree, that is, the pytree without its leaves.

    Parameters
    ----------
    tree : pytree
        The tree.
    is_leaf : callable, optional
        As for `flatten`.

    Examples
    --------
    >>> from functrans import tree
    >>> tree.structure([1, (2, 3)]) == tree.structure(["x", ("y", "z")])
    True
    >>> tree.structure([1, (2, 3)]).num_leaves
    3
    """
    return flatten(tree, is_leaf)[1]


def map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply a function to each leaf, and to the corresponding subtrees of the other trees.

    Parameters
    ----------
    f : callable
        Called with a leaf of `tree` and the subtree at the same place of each tree in `rest`.
    tree : pytree
        The tree whose structure the result has.
    *rest : pytree
        Trees that have at least the structure of `tree`: where it has a leaf, they may have a
        whole subtree, which is passed to `f` unchanged.
    is_leaf : callable, optional
        As for `flatten`.

    Returns
    -------
    pytree
        The values that `f` returned.

    Examples
    --------
    >>> from functrans import tree
    >>> params, gradient = {"w": 1.0, "b": (2.0,)}, {"w": 0.5, "b": (1.0,)}
    >>> tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    {'w': 0.95, 'b': (1.9,)}
    """
    first, expected = flatten(tree, is_leaf)
    columns = [_flatten_up_to(expected, other, "the trees given to map differ") for other in rest]
    return expected.unflatten([f(*row) for row in zip(first, *columns, strict=True)])


def map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply a function to each leaf and its key path: `map`, with the path as first argument.

    Parameters
    ----------
    f : callable
        Called with the `KeyPath`, a string as `paths` gives it, and then as by `map`.
    tree, *rest, is_leaf
        As for `map`.

    Returns
    -------
    pytree
        The values that `f` returned.

    Examples
    --------
    >>> from functrans import tree
    >>> tree.map_with_path(lambda path, leaf: f"{leaf} at {path}", {"w": [1, 2]})
    {'w': ["1 at ['w'][0]", "2 at ['w'][1]"]}
    """
    first, expected = flatten(tree, is_leaf)
    columns = [_flatten_up_to(expected, other, "the trees given to map differ") for other in rest]
    rows = zip(_paths(expected), first, *columns, strict=True)
    return expected.unflatten([f(*row) for row in rows])


def paths(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[KeyPath]:
    """Return the key path of each leaf: the expression that selects it, without the tree's name.

    Parameters
    ----------
    tree : pytree
        The tree.
    is_leaf : callable, optional
        As for `flatten`.

    Returns
    -------
    list of KeyPath
        One for each leaf, in order: strings. The path of a tree that is itself a leaf is empty.

    Examples
    --------
    >>> from collections import namedtuple
    >>> from functrans import tree
    >>> Layer = namedtuple("Layer", ["weight", "bias"])
    >>> tree.paths({"params": [Layer(1.0, 2.0), 3.0]})
    ["['params'][0].weight", "['params'][0].bias", "['params'][1]"]
    """
    return _paths(flatten(tree, is_leaf)[1])


def flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], Structure]:
    """Split a pytree into its leaves, each with its key path, and its structure.

    Parameters
    ----------
    tree, is_leaf
        As for `flatten`.

    Returns
    -------
    pairs : list of (KeyPath, leaf)
    structure : Structure

    Examples
    --------
    >>> from functrans import tree
    >>> pairs, _ = tree.flatten_with_path({"w": [1.0, 2.0]})
    >>> pairs
    [("['w'][0]", 1.0), ("['w'][1]", 2.0)]
    >>> pairs[1][0].keys
    ('w', 1)
    """
    found, structure = flatten(tree, is_leaf)
    return list(zip(_paths(structure), found, strict=True)), structure


def transpose(outer: Structure, inner: Structure, tree: Any) -> Any:
    """Transpose a tree of trees: an ``outer`` of ``inner`` becomes an ``inner`` of ``outer``.

    Parameters
    ----------
    outer, inner : Structure
        The structure of `tree` down to some depth, and that of all its subtrees there.
    tree : pytree

    Returns
    -------
    pytree

    Raises
    ------
    TreeMismatchError
        If `tree` does not have the structure ``outer`` with subtrees ``inner``.

    Examples
    --------
    >>> from functrans import tree
    >>> rows = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    >>> tree.transpose(tree.structure([0, 0]), tree.structure({"x": 0, "y": 0}), rows)
    {'x': [1, 3], 'y': [2, 4]}
    """
    columns = []
    for part in _flatten_up_to(outer, tree, "the tree does not have the outer structure"):
        found, structure = flatten(part)
        if structure != inner:
            raise TreeMismatchError(
                f"the tree does not have the inner structure: {difference(inner, structure)}"
            )
        columns.append(found)
    return inner.unflatten([outer.unflatten(row) for row in zip(*columns, strict=True)])


def broadcast(prefix: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Spread the leaves of a prefix over a tree: a tree with the structure of `tree`.

    Parameters
    ----------
    prefix, tree, is_leaf
        As for `broadcast_prefix`.

    Returns
    -------
    pytree

    Examples
    --------
    >>> from functrans import tree
    >>> tree.broadcast({"w": 0, "b": 1}, {"w": (2.0, 3.0), "b": 4.0})
    {'w': (0, 0), 'b': 1}
    """
    return structure(tree).unflatten(broadcast_prefix(prefix, tree, is_leaf))


def broadcast_prefix(
    prefix: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None, what: str = "the prefix"
) -> list[Any]:
    """Spread the leaves of a prefix over the leaves of a tree.

    Parameters
    ----------
    prefix : pytree
        A tree with the structure of `tree` down to some depth, and a leaf for each subtree there.
    tree : pytree
        The tree.
    is_leaf : callable, optional
        As for `flatten`, for `prefix` alone: ``lambda node: node is None`` makes None a value to
        spread, like any other.
    what : str, optional
        The name of the prefix in an error message.

    Returns
    -------
    list
        For each leaf of `tree`, the leaf of `prefix` that covers it.

    Examples
    --------
    >>> from functrans import tree
    >>> tree.broadcast_prefix((0, None), ({"w": 1.0, "b": 2.0}, 3.0), lambda node: node is None)
    [0, 0, None]
    """
    values, expected = flatten(prefix, is_leaf)
    subtrees = _flatten_up_to(expected, tree, f"{what} does not fit")
    return [
        value
        for value, subtree in zip(values, subtrees, strict=True)
        for _ in range(flatten(subtree)[1].num_leaves)
    ]


def _flatten_up_to(structure: Structure, tree: Any, complaint: str) -> list[Any]:
    """Return the subtree at each leaf of `structure`, or raise an error that starts as given."""
    try:
        return structure.flatten_up_to(tree)
    except ValueError as error:
        reason = difference(structure, flatten(tree)[1], prefix=True) or str(error)
    raise TreeMismatchError(f"{complaint}: {reason}")


def _paths(structure: Structure) -> list[KeyPath]:
    return [
        KeyPath(access.codify(""), [getattr(entry, "field", entry.entry) for entry in access])
        for access in structure.accessors()
    ]
