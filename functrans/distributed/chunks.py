"""chunked_map: applies a function to more data than fit into memory, chunk by chunk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from functrans.api.arguments import check_callable, name_of
from functrans.api.progress import titled
from functrans.distributed.sources import Chunk, source_of
from functrans.errors import TreeMismatchError
from functrans.lazily import lazy
from functrans.tracebacks import boundary
from functrans.tree import core as tree
from functrans.tree.compare import Structure, difference

_on_dask = lazy("functrans.distributed.cluster:results")
_tqdm = lazy("tqdm.auto:tqdm")

ENGINES = ("serial", "threads", "dask")
COMBINE = ("sum", "concatenate")

Combine = str | Callable[[Any, Any], Any]


@boundary
def chunked_map(
    function: Callable[[Any], Any],
    source: Any,
    /,
    *,
    combine: Combine = "concatenate",
    chunk_size: int | None = None,
    engine: str = "serial",
    workers: int | None = None,
    client: Any = None,
    progress: str | None = None,
) -> Any:
    """Apply a function to chunks of data, and combine the results.

    Only some chunks are in memory at a time. Results are combined in the order of the chunks, so
    the same data give the same bits.

    Parameters
    ----------
    function : callable
        Takes one chunk, and returns a pytree. A jitted function is compiled once for each chunk
        size.
    source : array, pytree of arrays, or iterator
        Arrays are divided along their first axis: NumPy's, memory-mapped ones, those of zarr and
        dask, or any object with ``shape``, ``dtype`` and slices. The arrays of a pytree are divided
        together. An iterator yields the chunks.
    combine : {"concatenate", "sum"} or callable, optional
        ``"concatenate"`` joins results along their first axis; ``"sum"`` adds them up;
        ``combine(so_far, next)`` is called for each result after the first.
    chunk_size : int, optional
        The rows of a chunk; by default 16 MB.
    engine : {"serial", "threads", "dask"}, optional
        ``"threads"`` reads and computes chunks in several threads, and combines results in this
        one. ``"dask"`` does so in the processes of a Dask cluster: those of ``client``, of the
        current one, or of a local cluster that is started for the call. If a process dies, only its
        chunks are computed again. Rows of a memory-mapped file are read there; a compiled function
        is sent as its program, and found in the disk cache of the other process.
    workers : int, optional
        How many threads, or processes of a local cluster; 2 if left out.
    client : distributed.Client, optional
    progress : str, optional
        The title of a tqdm progress bar that counts the chunks.

    Returns
    -------
    pytree

    Raises
    ------
    ValueError
        If an option is invalid, or an iterator yields nothing.
    AxisSizeError
        If the arrays have different numbers of rows.
    TreeMismatchError
        If the results for two chunks differ in structure.
    ImportError
        If there is no Dask for ``engine="dask"``: ``pip install "functrans[dask]"``.

    Notes
    -----
    Errors of the function name the chunk. Gradients may be summed, too: the gradient of a sum over
    a data set is a sum over chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, jit
    >>> from functrans.distributed import chunked_map
    >>> x = np.arange(10.0).reshape(5, 2)
    >>> chunked_map(lambda rows: rows.sum(axis=1), x, chunk_size=2)
    array([ 1.,  5.,  9., 13., 17.])
    >>> w = np.array([1.0, -1.0])
    >>> gradient = jit(lambda rows: grad(lambda w: np.sum((rows @ w) ** 2))(w))
    >>> chunked_map(gradient, x, combine="sum", chunk_size=2, engine="threads")
    array([-40., -50.])
    """
    check_callable(function, "chunked_map")
    if engine not in ENGINES:
        raise ValueError(f"engine of chunked_map is one of {', '.join(ENGINES)}, not {engine!r}")
    if not callable(combine) and combine not in COMBINE:
        raise ValueError(f"combine is 'sum', 'concatenate' or a function, not {combine!r}")
    for value, what in ((chunk_size, "chunk_size"), (workers, "workers")):
        if value is not None and value < 1:
            raise ValueError(f"{what} of chunked_map must be at least 1, not {value}")
    chunks, count = source_of(source, chunk_size)
    results: Iterator[Any]
    if engine == "serial":
        results = (_applied(function, chunk, i) for i, chunk in enumerate(chunks))
    elif engine == "threads":
        results = _in_threads(function, chunks, workers or 2)
    else:
        results = _on_dask(function, chunks, client, workers or 2)
    if progress is not None:
        results = iter(_tqdm(results, desc=titled(progress, "chunked_map"), total=count))
    return _combined(results, combine, name_of(function))


def _applied(function: Callable[[Any], Any], chunk: Chunk, number: int) -> Any:
    try:
        return function(chunk.read())
    except Exception as error:
        error.add_note(f"in chunk {number} of chunked_map({name_of(function)})")
        raise


def _in_threads(
    function: Callable[[Any], Any], chunks: Iterator[Chunk], workers: int
) -> Iterator[Any]:
    """Results in the order of the chunks; only a few are computed ahead."""
    numbered = enumerate(chunks)
    with ThreadPoolExecutor(workers, "functrans-chunks") as pool:

        def begun() -> Iterator[Any]:
            for number, chunk in numbered:
                yield pool.submit(_applied, function, chunk, number)

        yield from in_order(begun(), workers + 1)


def in_order(futures: Iterator[Any], ahead: int) -> Iterator[Any]:
    """The results of futures, of which a few are begun ahead; the rest is cancelled in the end."""
    pending = deque(islice(futures, ahead))
    try:
        while pending:
            result = pending.popleft().result()
            pending.extend(islice(futures, 1))
            yield result
    finally:
        for future in pending:
            future.cancel()


def _combined(results: Iterator[Any], combine: Combine, name: str) -> Any:
    try:
        first = next(results)
    except StopIteration:
        raise ValueError(f"chunked_map({name}): the source has no chunks") from None
    if callable(combine):
        total = first
        for result in results:
            total = combine(total, result)
        return total
    leaves, structure = tree.flatten(first)
    if combine == "concatenate":
        columns = [leaves, *(_leaves(x, structure, name) for x in results)]
        return structure.unflatten(
            [np.concatenate(parts, axis=0) for parts in zip(*columns, strict=True)]
        )
    totals = [np.array(x) for x in leaves]
    for result in results:
        for i, x in enumerate(_leaves(result, structure, name)):
            totals[i] = totals[i] + x
    return structure.unflatten([x[()] for x in totals])


def _leaves(result: Any, expected: Structure, name: str) -> list[Any]:
    leaves, structure = tree.flatten(result)
    if structure != expected:
        raise TreeMismatchError(
            f"{name} must return the same structure for every chunk: "
            f"{difference(expected, structure)}"
        )
    return leaves
