"""The target that describes this machine, and caches keyed by its name."""

import numpy as np

from functrans import clear_caches, jit, trace
from functrans.loop.target import CPU
from functrans.lower.product.limits import WHOLE_VECTORS, Blocking
from functrans.run.call import on_disk
from functrans.run.code import host, native
from tests.targets import take_host_for, target


def test_the_host_is_a_cpu_with_vectors_of_its_own():
    assert host.kind() is CPU
    names = ("vector_bytes", "registers", "slow_division")
    own = {name: getattr(native, name)() for name in names}
    products = WHOLE_VECTORS if native.whole_vectors() else Blocking()
    assert host.target().having(Blocking()) == target(**own).having(Blocking())
    assert host.target()[Blocking] == products


def test_thresholds_of_a_test_prevail_over_those_of_the_host(monkeypatch):
    take_host_for(monkeypatch, blocking={"rows": 24})
    monkeypatch.setattr(host, "_whole_vectors", lambda: True)
    assert host.target()[Blocking].rows == 24


def test_programs_are_planned_for_the_host(monkeypatch):
    def printed():
        clear_caches()
        return jit(lambda x: np.sqrt(x) + 1).lower(np.ones(1000)).schedule()

    assert "by " in printed()
    take_host_for(monkeypatch, stages=())
    assert "by " not in printed()


def test_a_program_on_disk_is_one_for_a_target(monkeypatch):
    graph = trace(np.sin)(np.ones(3))
    usual = on_disk.key_of(graph)
    found = []
    for long_row in (3, 4, 3):
        take_host_for(monkeypatch, fusion={"long_row": long_row})
        found.append(on_disk.key_of(graph))
    assert found[0] == found[2]
    assert len({usual, *found}) == 3
