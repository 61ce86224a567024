"""save and load: a compiled program in a file that holds its graph as data.

The file is a zip archive of ``program.json`` and the constant arrays in NumPy's format. It contains
neither Python code nor machine code: machine code is compiled, or read from the user's own cache.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functrans.api.arguments import as_array, aval_of_leaf, check_callable, examples, name_of
from functrans.api.call import compiled_call, jit_call
from functrans.api.compile import Jitted, jit
from functrans.api.recompute import POLICIES
from functrans.api.structures import structure_from_data, structure_to_data
from functrans.errors import SavedProgramError, TreeMismatchError
from functrans.ir.check import check_graph
from functrans.ir.graph import Graph
from functrans.ir.serial import UndefinedOperation, dtype_from_data, graph_from_data, graph_to_data
from functrans.lazily import lazy
from functrans.ops.arrays.promotion import cast
from functrans.ops.calls.constant import Constant
from functrans.ops.calls.custom import Rule, Traced
from functrans.ops.control.layout import exact_sizes
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference

FORMAT = "functrans program"
VERSION = 2
_PROGRAM = "program.json"

# imports the compiler
_check_untrusted = lazy("functrans.run.call.untrusted:check_untrusted")


@boundary
def save(
    function: Callable[..., Any], path: str | os.PathLike[str], /, *args: Any, **kwargs: Any
) -> None:
    """Write the program of a function, for arguments of known types, to a file.

    Parameters
    ----------
    function : callable
        A function that `jit` returned, or one that `jit` can compile.
    path : path-like
        The file, which is replaced if it exists.
    *args, **kwargs
        Arguments of the types that the program is for: arrays, numbers, `Aval`s, or tuples, lists,
        named tuples and dicts of them. Static ones are constants of the program.

    Raises
    ------
    SavedProgramError
        If the program cannot be written as data: it calls Python (`callback`), or has arguments or
        results in containers of a user's class, or a checkpoint with a user's policy.
    TracerBoolError
        If the function branches in Python on values: a file holds one program for all values.

    Notes
    -----
    User-defined operations (`functrans.extend`) are saved by name, and must be defined where the
    file is loaded. The rules of custom derivatives are traced now, and saved. A named tuple is
    saved by the names of its class and of its fields. The loaded program accepts any class with
    these names, and returns one that it defines, or NumPy's class if the named tuple is the result
    of a NumPy function.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> import functrans
    >>> def predict(weights, x):
    ...     return np.tanh(x @ weights["w"]) + weights["b"]
    >>> weights = {"w": np.eye(2), "b": np.zeros(2)}
    >>> path = os.path.join(tempfile.mkdtemp(), "predict.functrans")
    >>> functrans.save(predict, path, weights, np.ones(2))
    >>> program = functrans.load(path)
    >>> program(weights, np.zeros(2))
    array([0., 0.])
    >>> functrans.grad(lambda x: program(weights, x).sum())(np.zeros(2))
    array([1., 1.])
    """
    check_callable(function, "save")
    (args, kwargs), _ = examples((args, kwargs))
    jitted = function if isinstance(function, Jitted) else jit(function)
    graph, captures, arguments, results = jitted.program_for(args, kwargs)
    name = name_of(function)
    parts = _Parts(captures)
    try:
        data = {
            "format": FORMAT,
            "version": VERSION,
            "name": name,
            "arguments": structure_to_data(arguments),
            "results": structure_to_data(results),
            "captures": len(captures),
            "graph": graph_to_data(graph, parts.to_data),
            "rules": parts.rules,
        }
    except TypeError as error:
        raise SavedProgramError(f"{name} cannot be saved: {error}") from None
    _write(Path(path), data, parts.arrays)


def _write(path: Path, data: Any, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    # atomic: a reader finds the old file or the whole new one
    number, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(number, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr(_PROGRAM, json.dumps(data))
            for i, array in enumerate(arrays):
                content = io.BytesIO()
                np.save(content, array, allow_pickle=False)
                z.writestr(f"{i}.npy", content.getvalue())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# -- loading ---------------------------------------------------------------------------------------


class LoadedProgram:
    """A loaded program, which is called like the saved function, without its static arguments.

    It takes arguments of the types that it was saved for. It can be called in other functions, and
    works with `grad`, `vmap` and `jit`.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        captures: Sequence[np.ndarray[Any, Any]],
        arguments: Structure,
        results: Structure,
    ) -> None:
        self.__name__ = name
        self._graph = graph
        self._captures = captures
        self._arguments = arguments
        self._results = results
        self._taken = {arguments}

    def __repr__(self) -> str:
        args, kwargs = tree.unflatten(self._arguments, self._graph.in_avals[: self._count])
        shown = [*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())]
        return f"<program {self.__name__}({', '.join(shown)})>"

    @property
    def _count(self) -> int:
        return self._arguments.num_leaves

    def graph(self) -> Graph:
        """The program as a graph, whose last inputs are the arrays in the file."""
        return self._graph

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        if structure not in self._taken and not self._takes(structure):
            raise TreeMismatchError(
                f"{self.__name__} was saved for other arguments: "
                f"{difference(self._arguments, structure)}"
            )
        operands = [self._checked(i, x) for i, x in enumerate(leaves)]
        operands += self._captures
        if any(isinstance(x, Tracer) for x in operands):
            outs = jit_call(*operands, graph=self._graph, name=self.__name__)
        else:
            outs = compiled_call(*operands, graph=self._graph, name=self.__name__)
        return self._results.unflatten(outs)

    def _takes(self, structure: Structure) -> bool:
        """Whether a structure is that of the arguments, up to named tuples of equal names."""
        try:
            same: bool = structure_to_data(structure) == structure_to_data(self._arguments)
        except TypeError:
            return False
        if same:
            self._taken.add(structure)
        return same

    def _checked(self, i: int, x: Any) -> Any:
        x = as_array(x, lambda: f"leaf {i} of the arguments of {self.__name__}")
        expected, found = self._graph.inputs[i].aval, aval_of_leaf(x)
        # a Python number is weak, unlike other numbers of the same dtype
        fits = found.weak and np.can_cast(found.dtype, expected.dtype, "same_kind")
        same = found.dtype == expected.dtype and not expected.weak
        if found.shape != expected.shape or not (fits or same):
            path = tree.paths(tree.unflatten(self._arguments, range(self._count)))[i]
            raise TreeMismatchError(
                f"{self.__name__} was saved for {expected} at {path} of its arguments "
                f"(args, kwargs), found {found}"
            )
        return cast(x, expected.dtype)


@boundary
def load(path: str | os.PathLike[str], /, *, trusted: bool = False) -> LoadedProgram:
    """The program that `save` wrote to a file.

    Nothing in the file is run: it holds a graph, which is checked, and arrays. Whoever wrote the
    file, the program cannot access memory outside its arrays: the parameters of each operation are
    in range, and the kernels compiled for it are verified, whatever `config.check_plans` says. It
    is compiled for this machine when it is first called, or found in the disk cache.

    Parameters
    ----------
    path : path-like
    trusted : bool, optional
        Whether the file's source is as trustworthy as the code's. Then only types are checked,
        which takes less time, and user-defined operations on arrays too large to be verified are
        accepted.

    Returns
    -------
    LoadedProgram
        Called like the function that was saved, without static arguments.

    Raises
    ------
    SavedProgramError
        If the file was not written by `save`, is damaged, has another version of the format, or
        uses operations that are not defined here.
    OSError
        If it cannot be read.
    """
    shown = os.fspath(path)
    try:
        return _loaded(Path(path), shown, trusted)
    except UndefinedOperation as error:
        raise SavedProgramError(
            f"{shown} uses the operation {error}, which is not defined here: import the module "
            "that defines it"
        ) from None
    except (OSError, SavedProgramError):
        raise
    except Exception as error:  # the errors that readers of damaged or malicious data raise
        raise SavedProgramError(
            f"{shown} is no program that functrans saved, or it is damaged "
            f"({type(error).__name__}: {error})"
        ) from None


def _loaded(path: Path, shown: str, trusted: bool) -> LoadedProgram:
    with zipfile.ZipFile(path) as z:
        data = json.loads(z.read(_PROGRAM))
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']!r}")
        if data["version"] != VERSION:
            raise SavedProgramError(
                f"{shown} has version {data['version']} of the format, and this functrans reads "
                f"version {VERSION}: save it again, by this one"
            )
        names = sorted((n for n in z.namelist() if n != _PROGRAM), key=lambda n: int(n[:-4]))
        arrays = [_array(z.read(n)) for n in names]
    parts = _Parts(arrays, trusted)
    parts.rules = data["rules"]
    graph = parts.graph(data["graph"])
    captures = arrays[: data["captures"]]
    arguments, results = map(structure_from_data, (data["arguments"], data["results"]))
    given = [aval_of_leaf(x) for x in captures]
    count = arguments.num_leaves
    if (
        len(graph.inputs) != count + data["captures"]
        or any(not a.same_array_type(b) for a, b in zip(graph.in_avals[count:], given, strict=True))
        or len(graph.outputs) != results.num_leaves
    ):
        raise ValueError("its parts do not belong together")
    return LoadedProgram(str(data["name"]), graph, captures, arguments, results)


def _array(content: bytes) -> np.ndarray[Any, Any]:
    """An array in NumPy's format, in which bfloat16 is stored as a void dtype of two bytes."""
    array: np.ndarray[Any, Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return array.view(dtype_from_data("bfloat16")) if array.dtype == np.dtype("V2") else array


# -- parameters ------------------------------------------------------------------------------------


_POLICY_NAMES = {policy: name for name, policy in POLICIES.items()}
_MOST_RULES = 100


class _Parts:
    """The parts of a file besides the program's graph: constant arrays, and the graphs of rules."""

    def __init__(self, captures: Sequence[Any] = (), trusted: bool = True) -> None:
        self.arrays = [np.asarray(x) for x in captures]
        self._trusted = trusted
        self.rules: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def to_data(self, value: Any) -> Any:
        """A parameter of an equation as plain data."""
        if isinstance(value, Constant):
            self.arrays.append(value.array)
            return {"constant": len(self.arrays) - 1}
        if isinstance(value, Rule):
            return {"rule": self._rule_to_data(value)}
        if callable(value) and value in _POLICY_NAMES:
            return {"policy": _POLICY_NAMES[value]}
        while hasattr(value, "function"):
            value = value.function
        raise TypeError(f"it consists of Python's code ({name_of(value)}), and a file holds none")

    def _rule_to_data(self, rule: Rule) -> int:
        """The number of a rule, whose graphs may contain the same rule."""
        number = self._numbers.get(rule.key)
        if number is None:
            number = self._numbers[rule.key] = len(self.rules)
            if number == _MOST_RULES:
                raise TypeError(f"the rule of {rule.what} leads to another one again and again")
            self.rules.append({"what": rule.what})
            traced, _ = rule.traced()
            graphs = [graph_to_data(graph, self.to_data) for graph in traced]
            self.rules[number]["graphs"] = graphs
        return number

    def graph(self, data: Any) -> Graph:
        """A graph read from a file, and checked."""
        graph = graph_from_data(data, self.from_data)
        with exact_sizes():
            check_graph(graph)
        if not self._trusted:
            _check_untrusted(graph)
        return graph

    def from_data(self, data: Any) -> Any:
        """The inverse of `to_data`."""
        if "constant" in data:
            return Constant(self.arrays[data["constant"]])
        if "rule" in data:
            return _LoadedRule(self, data["rule"])
        return POLICIES[data["policy"]]


class _LoadedRule(Rule):
    """A rule in a file, whose graphs are read when a derivative is taken."""

    def __init__(self, parts: _Parts, number: int) -> None:
        self._parts = parts
        self._data = parts.rules[number]
        self.what = self._data["what"]
        self.key = id(parts), number

    def traced(self) -> Traced:
        return Traced(tuple(map(self._parts.graph, self._data["graphs"])))
