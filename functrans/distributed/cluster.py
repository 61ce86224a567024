"""Chunks on the processes of a Dask cluster, which may fail."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from functrans import config
from functrans.api.compile import Jitted
from functrans.api.saved import load, save
from functrans.caches import cached
from functrans.distributed.chunks import in_order
from functrans.distributed.sources import Chunk
from functrans.tree import core as tree

RETRIES = 5
"""The number of attempts for a chunk, which fails with the process that computes it."""


def results(
    function: Callable[[Any], Any], chunks: Iterator[Chunk], client: Any, workers: int
) -> Iterator[Any]:
    """Results in the order of the chunks; slightly more are started than there are threads."""
    with ExitStack() as stack:
        client = client or _current(workers, stack)
        threads = _threads(client)
        send = _Shipped(function, client) if isinstance(function, Jitted) else _Plain(function)

        def begun() -> Iterator[Any]:
            for number, chunk in enumerate(chunks):
                arguments = send.arguments(chunk)
                yield client.submit(
                    _compute, chunk, number, threads, *arguments, pure=False, retries=RETRIES
                )

        yield from in_order(begun(), 2 * sum(threads.values()))


def _dask() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise ImportError(
            "engine='dask' needs Dask's scheduler: pip install 'functrans[dask]', or take "
            "engine='threads'"
        ) from error


def _current(workers: int, stack: ExitStack) -> Any:
    """The current client, or that of a new local cluster, which is closed with the stack."""
    distributed = _dask()
    try:
        return distributed.get_client()
    except ValueError:
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        )
        return stack.enter_context(distributed.Client(stack.enter_context(cluster)))


def _threads(client: Any) -> dict[str, int]:
    """The number of threads of each machine of a cluster."""
    found: dict[str, int] = {}
    for worker in client.scheduler_info(n_workers=-1)["workers"].values():
        found[worker["host"]] = found.get(worker["host"], 0) + worker["nthreads"]
    return found


class _Plain:
    """A Python function, which is pickled."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def arguments(self, chunk: Chunk) -> tuple[Any, ...]:
        return self._function, None


class _Shipped:
    """A compiled function, sent as its program: once for each size of a chunk."""

    def __init__(self, function: Jitted[..., Any], client: Any) -> None:
        self._function, self._client = function, client
        self._programs: dict[Any, Any] = {}

    def arguments(self, chunk: Chunk) -> tuple[Any, ...]:
        types = chunk.types()
        leaves, structure = tree.flatten(types)
        key = (structure, *leaves)
        if key not in self._programs:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "program")
                save(self._function, path, types)
                # as the result of a task, it is created again if the process that holds it dies
                self._programs[key] = self._client.submit(_same, path.read_bytes())
        return None, self._programs[key]


def _same(x: bytes) -> bytes:
    return x


def _compute(
    chunk: Chunk, number: int, threads: dict[str, int], function: Any, program: bytes | None
) -> Any:
    """The work of a process."""
    if "FUNCTRANS_NUM_THREADS" not in os.environ:
        host = _dask().get_worker().address.rpartition(":")[0].rpartition("/")[2]
        config.threads = max(1, (os.cpu_count() or 1) // threads.get(host, 1))
    if program is not None:
        function = _loaded(sha256(program).digest(), program)
    try:
        return function(chunk.read())
    except Exception as error:
        error.add_note(f"in chunk {number} of chunked_map")
        raise


@cached(32)
def _loaded(digest: bytes, program: bytes) -> Callable[[Any], Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program")
        path.write_bytes(program)
        return load(path, trusted=True)
