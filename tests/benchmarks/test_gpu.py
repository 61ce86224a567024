"""What can be tried of the GPU's benchmark without one: on an emulated GPU, and its tables."""

import numpy as np
import pytest

from functrans.run.cuda import driver, scalars
from tests.benchmarks import gpu
from tests.benchmarks.workloads import WORKLOADS
from tests.run.cuda.emulated import emulated_gpu


def test_without_a_gpu_it_says_so():
    with driver.using(), pytest.raises(SystemExit) as ended:
        gpu.main([])
    assert ended.value.code == (
        'there is nothing to measure: there is no device "cuda" here: there is no GPU'
    )


@pytest.fixture
def emulated(monkeypatch):
    with emulated_gpu(monkeypatch) as one:
        yield one
        scalars.forget()


@pytest.mark.full
def test_bandwidth_is_of_what_has_to_be_moved(emulated, monkeypatch):
    two = ["fused elementwise", "sum of all"]
    monkeypatch.setattr(gpu, "MOVING", {name: gpu.MOVING[name] for name in two})
    rows = list(gpu.bandwidth("cuda:0", 8192, 1))
    assert [row.name for row in rows] == ["copy", *two]
    assert rows[0].amount == 2 * 8192
    assert {row.amount for row in rows} == {8192, 2 * 8192}
    assert all(row.seconds[gpu.OURS] > 0 for row in rows)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", gpu.MOVING)
def test_what_is_measured_is_right(emulated, name):
    function, writes = gpu.MOVING[name]
    x = np.random.default_rng(0).normal(size=(2, 1024)).astype(np.float32)
    there = gpu.functrans.device_put(x, "cuda:0")
    found = np.asarray(gpu.jit(function)(there))
    np.testing.assert_allclose(found, function(x.astype(float)), rtol=1e-3, atol=1e-3)
    assert (found.size == x.size) == writes


@pytest.mark.full
def test_products_and_a_workload_run(emulated):
    assert len(list(gpu.products("cuda:0", 4, 1))) == len(gpu.PRODUCTS)
    (row,) = gpu.workloads("cuda:0", ["scalar gradient"], 1)
    assert gpu.OURS in row.seconds


def test_names_of_workloads_are_names():
    assert gpu.TORCH.keys() <= WORKLOADS.keys()


def test_contestants_take_turns():
    called = []
    contestants = [
        gpu.Contestant(name, lambda name=name: called.append(name), lambda result: None)
        for name in "ab"
    ]
    times = gpu.in_turns(contestants, 4)
    assert list(times) == ["a", "b"]
    assert called[6:] == ["a", "b"] * 4


def test_the_table():
    rows = [
        gpu.Measured("copy", {gpu.OURS: 1e-4}, 4e8, "TB/s"),
        gpu.Measured("softmax", {gpu.OURS: 2e-3, "jax.jit": 4e-6}, 8e9, "TB/s"),
    ]
    assert gpu.table("bandwidth", rows).splitlines() == [
        "bandwidth  functrans  jax.jit",
        "copy        100.0 us        -  4.00 TB/s",
        "softmax     2.000 ms   4.0 us  4.00 TB/s",
    ]
