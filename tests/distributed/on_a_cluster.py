"""Scenarios of `test_chunks.py` on a Dask cluster: results, and killed processes."""

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from functrans import jit
from functrans.distributed import chunked_map
from tests.distributed.test_chunks import WHOLE, X, Y, gradient, on_disk


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def test_a_cluster(client, tmp_path):
    x, y = on_disk(tmp_path, X, "x"), on_disk(tmp_path, Y, "y")
    run = partial(chunked_map, combine="sum", chunk_size=10, engine="dask", client=client)
    np.testing.assert_allclose(run(jit(gradient), (x, y)), WHOLE, rtol=1e-12)
    np.testing.assert_allclose(run(gradient, (X, Y)), WHOLE, rtol=1e-12)
    found = chunked_map(jit(lambda r: r * 2), X, chunk_size=10, engine="dask", client=client)
    np.testing.assert_array_equal(found, X * 2)


def test_arrays_of_dask(client):
    array = pytest.importorskip("dask.array")
    x = array.from_array(X, chunks=(25, 4))
    found = chunked_map(jit(lambda r: r.sum(0)), x, combine="sum", chunk_size=10, client=client,
                        engine="dask")  # fmt: skip
    np.testing.assert_allclose(found, X.sum(0), rtol=1e-12)
    np.testing.assert_allclose(chunked_map(lambda r: r * 1, x, chunk_size=10), X)


def test_threads_of_a_machine_are_shared(client):
    def threads(rows):
        from functrans import config

        return np.array([config.threads])

    found = chunked_map(threads, X, chunk_size=40, engine="dask", client=client)
    assert set(found) == {max(1, os.cpu_count() // 3)}


def test_an_error_in_a_cluster(client):
    def f(rows):
        raise ArithmeticError("too cold")

    with pytest.raises(ArithmeticError, match="too cold"):
        chunked_map(f, X, chunk_size=50, engine="dask", client=client)


def test_a_process_that_is_killed_costs_its_chunks_again_and_nothing_else(client, tmp_path):
    def slow(rows):
        number = int(np.flatnonzero((X == rows[0]).all(1))[0])
        with (tmp_path / f"{os.getpid()}").open("a") as begun:
            begun.write(f"{number} ")
        time.sleep(0.1)
        return rows.sum(0)

    victim = next(iter(client.run(os.getpid).values()))
    mine = tmp_path / f"{victim}"

    def kill():
        """In the middle of its second chunk: what it has done, and what it does, are lost."""
        while not mine.exists() or len(mine.read_text().split()) < 2:
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = chunked_map(slow, X, combine="sum", chunk_size=4, engine="dask", client=client)
    killer.join()
    np.testing.assert_allclose(found, X.sum(0), rtol=1e-12)
    begun = [number for file in tmp_path.iterdir() for number in file.read_text().split()]
    again = [number for number in set(begun) if begun.count(number) > 1]
    assert len(set(begun)) == 26
    assert again and set(again) <= set(mine.read_text().split())
    # somebody else is in its place
    for _ in range(100):
        if victim not in client.run(os.getpid).values():
            break
        time.sleep(0.1)
    assert victim not in client.run(os.getpid).values()
