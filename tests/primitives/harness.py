"""Helpers of the generated tests: primitives with their samples, and graphs of one equation."""

import functools
import importlib
import itertools
import pkgutil
import warnings
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import functrans.ops
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.ir.graph import Graph
from functrans.ir.primitive import NotDifferentiable, Primitive, Sample, bind, registry
from functrans.ir.types import aval_of, complex_dtype, is_complex, is_inexact
from functrans.trace.stage import replay, rewrite
from functrans.transform.forward import jvp_graph
from functrans.transform.transpose import transpose_graph
from tests.amount import one_of_each

for module in pkgutil.iter_modules(functrans.ops.__path__):
    importlib.import_module(f"functrans.ops.{module.name}")

PRIMITIVES: list[Primitive] = [registry[name] for name in sorted(registry)]


class Case(NamedTuple):
    """A primitive, what to apply it to, and what it gives."""

    primitive: Primitive
    sample: Sample
    another: Sample
    """A second draw of operands, in the same shapes."""

    @property
    def operands(self) -> tuple[Any, ...]:
        return self.sample.operands

    @property
    def params(self) -> dict[str, Any]:
        return self.sample.params

    @property
    def moving(self) -> tuple[bool, ...]:
        """Which operands have derivatives."""
        return tuple(
            is_inexact(x.dtype) and number not in self.primitive.fixed
            for number, x in enumerate(self.operands)
        )

    @property
    def differentiable(self) -> bool:
        return any(self.moving) and not isinstance(self.primitive.jvp, NotDifferentiable)

    def numpy(self, *operands: Any) -> tuple[Any, ...]:
        """The results, computed by NumPy."""
        with np.errstate(all="ignore"):
            result = self.primitive.numpy(*operands, **self.params)
        return result if self.primitive.several else (result,)

    def graph(self) -> Graph:
        """The primitive as the one equation of a graph."""

        def run(*operands: Any) -> Any:
            result = bind(self.primitive, operands, self.params)
            return result if self.primitive.several else [result]

        return rewrite(run, [aval_of(x) for x in self.operands])


def converted(sample: Sample, dtype: Any) -> Sample:
    """A sample with its floats in another dtype; complex numbers stay such, of that precision."""
    return sample._replace(
        operands=tuple(_converted(x, np.dtype(dtype)) for x in map(np.asarray, sample.operands))
    )


def _converted(x: Any, dtype: Any) -> Any:
    if not is_inexact(x.dtype):
        return x
    return x.astype(complex_dtype(dtype) if is_complex(x.dtype) else dtype)


def in_the_plane(sample: Sample, dtype: Any, seed: int) -> Sample:
    """A sample with its floats made complex, by imaginary parts that are drawn."""
    rng = np.random.default_rng(seed)

    def moved(x: Any) -> Any:
        if x.dtype.kind != "f":
            return _converted(x, np.dtype(dtype))
        return (x + 1j * rng.uniform(0.1, 0.4, x.shape)).astype(dtype)

    return sample._replace(operands=tuple(map(moved, map(np.asarray, sample.operands))))


@functools.cache
def drawn(primitive: Primitive, seed: int) -> list[Sample]:
    assert primitive.samples is not None
    rng = np.random.default_rng([zlib.crc32(primitive.name.encode()), seed])
    return list(primitive.samples(rng))


@functools.cache
def cases(*dtypes: Any) -> dict[str, Case]:
    """Every primitive with every one of its samples in every one of the dtypes, by name."""
    found = {}
    for primitive in PRIMITIVES:
        if primitive.samples is None:
            continue
        pairs = zip(drawn(primitive, 0), drawn(primitive, 1), strict=True)
        for number, (sample, another) in enumerate(pairs):
            floats = any(is_inexact(np.asarray(x).dtype) for x in sample.operands)
            for dtype in dtypes if floats else [np.float64]:
                name = f"{primitive.name}-{number}" + (f"-{np.dtype(dtype)}" if floats else "")
                found[name] = Case(primitive, converted(sample, dtype), converted(another, dtype))
    return found


def apart(*dtypes: Any) -> dict[np.dtype[Any], dict[str, Case]]:
    """The cases of each dtype: those without floats, which are the same, with the first one."""
    known: set[str] = set()
    found = {}
    for dtype in map(np.dtype, dtypes):
        found[dtype] = {name: case for name, case in cases(dtype).items() if name not in known}
        known |= found[dtype].keys()
    return found


def takes(primitive: Primitive, operands: Any, params: Any) -> bool:
    """Whether NumPy evaluates a primitive on operands of these types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return _takes(primitive, operands, params)


def _takes(primitive: Primitive, operands: Any, params: Any) -> bool:
    if primitive.prepare is not None:
        try:
            primitive.prepare(*operands, **params)
        except TypeError:
            return False
    with np.errstate(all="ignore"):
        try:
            primitive.infer_all([aval_of(x) for x in operands], params)
            primitive.numpy(*operands, **params)
        except TypeError:
            return False
    return True


@functools.cache
def complex_cases(dtype: Any = np.complex128) -> dict[str, Case]:
    """Every primitive that takes complex numbers, with its samples of floats made complex."""
    found = {}
    for primitive in PRIMITIVES:
        if primitive.samples is None or primitive.higher_order:
            continue
        pairs = zip(drawn(primitive, 0), drawn(primitive, 1), strict=True)
        for number, (sample, another) in enumerate(pairs):
            moved = in_the_plane(sample, dtype, 2 * number)
            if any(is_complex(x.dtype) for x in moved.operands) and takes(
                primitive, moved.operands, moved.params
            ):
                name = f"{primitive.name}-{number}-{np.dtype(dtype)}"
                found[name] = Case(primitive, moved, in_the_plane(another, dtype, 2 * number + 1))
    return found


def kind(case: Case) -> tuple[str, tuple[str, ...]]:
    """What the quick set has one sample of: a primitive, and the kinds of its operands' dtypes."""
    return case.primitive.name, tuple(np.asarray(x).dtype.kind for x in case.operands)


def parameters(catalogue: dict[str, Case]) -> dict[str, Any]:
    """The arguments of `pytest.mark.parametrize` for cases."""
    values = one_of_each(kind, catalogue.values())
    return {"argnames": "case", "argvalues": values, "ids": catalogue.keys()}


def one_precision(names: Iterable[str]) -> list[Any]:
    """Names of primitives with dtypes: the quick set has one of each primitive, dtypes in turn."""

    def name_of(name: str) -> str:
        return name.rpartition("-")[0]

    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name_of(name), []).append(name)
    turned = [both[:: (-1) ** number] for number, both in enumerate(alike.values())]
    return one_of_each(name_of, itertools.chain(*turned))


def by_primitive(catalogue: dict[str, Case]) -> dict[str, Any]:
    """The same for all cases of a primitive at once, where a test is cheap: with their names."""
    groups: dict[str, dict[str, Case]] = {}
    for name, case in catalogue.items():
        groups.setdefault(case.primitive.name, {})[name] = case
    return {"argnames": "group", "argvalues": groups.values(), "ids": groups.keys()}


def together(group: Sequence[Case]) -> tuple[Graph, list[Any]]:
    """Cases as one graph, and its inputs."""

    def run(*operands: Any) -> Any:
        left = iter(operands)
        results: list[Any] = []
        for case in group:
            result = bind(case.primitive, tuple(next(left) for _ in case.operands), case.params)
            results += result if case.primitive.several else [result]
        return results

    operands = [np.asarray(x) for case in group for x in case.operands]
    return rewrite(run, [aval_of(x) for x in operands]), operands


UP_TO_SIGNS = {"eigh", "svd"}
"""Of the vectors that they find, LAPACK chooses the signs."""


def expect(graph: Graph, operands: Any, found: Any) -> None:
    """See that what a kernel has found is what NumPy finds."""
    with np.errstate(all="ignore"):
        wanted = by_numpy(graph, operands)
    primitives = {eqn.primitive.name for eqn in graph.eqns}
    if UP_TO_SIGNS & primitives:
        found, wanted = (list(map(np.abs, each)) for each in (found, wanted))
    if any(eqn.params.get("of") == "eigh" for eqn in graph.eqns):
        # nor are the phases of complex vectors determined
        found, wanted = ([values, np.hypot(re, im)] for values, re, im in (found, wanted))
    for mine, value in zip(found, map(np.asarray, wanted), strict=True):
        assert (mine.shape, mine.dtype) == (value.shape, value.dtype)
        rounding = 1e-10 if value.real.dtype == np.float64 else 2e-4
        if value.dtype.kind not in "fc":
            rounding = 0
        np.testing.assert_allclose(mine, value, rtol=rounding, atol=rounding)


# -- derivatives of graphs -------------------------------------------------------------------------


def tangent_graph(graph: Graph, moving: tuple[bool, ...]) -> Graph:
    """From inputs and tangents of the moving ones to the tangents of the float outputs."""
    floats = [is_inexact(aval.dtype) for aval in graph.out_avals]
    both = jvp_graph(graph, moving, tuple(floats)).graph
    return Graph(both.inputs, both.eqns, both.outputs[len(floats) :])


def pullback_graph(tangent: Graph, values: int, directions: int) -> Graph:
    """From inputs and cotangents of the outputs to cotangents of the directions."""
    return transpose_graph(tangent, (False,) * values + (True,) * directions, None, True).graph


def pulled_back(tangent: Graph, values: Any, directions: Any, cotangents: Any) -> Any:
    """The cotangents of the directions."""
    results = run(pullback_graph(tangent, len(values), len(directions)), [*values, *cotangents])
    # what depends on no direction comes first
    return results[len(results) - len(directions) :]


def run(graph: Graph, inputs: Any) -> list[Any]:
    with np.errstate(all="ignore"):
        return replay(graph, inputs)


def like(rng: np.random.Generator, x: Any) -> Any:
    """Random numbers in the shape and dtype of an array."""
    drawn = rng.normal(size=np.shape(x))
    if is_complex(x.dtype):
        drawn = drawn + 1j * rng.normal(size=np.shape(x))
    return drawn.astype(x.dtype)[()]


def inner(xs: Any, ys: Any) -> float:
    """The pairing of cotangents with tangents."""
    return sum(float(np.sum(np.asarray(x) * y).real) for x, y in zip(xs, ys, strict=True))
