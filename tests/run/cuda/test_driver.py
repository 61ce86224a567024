"""The choice of the driver for a device."""

import contextvars
import inspect
import os
import threading

import pytest

from functrans.errors import DeviceError
from functrans.run.cuda import driver
from functrans.run.cuda.core import CoreDriver
from functrans.run.cuda.driver import Driver, count, ordinal_of, using
from tests.run.cuda.stub import Stub


@pytest.mark.parametrize(
    ("name", "ordinal"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1), ("cuda:12", 12)]
)
def test_names_of_gpus(name, ordinal):
    assert ordinal_of(name) == ordinal


@pytest.mark.parametrize(
    "name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "cuda1", 0, None]
)
def test_what_is_no_name(name):
    with pytest.raises(DeviceError, match="a device is"):
        ordinal_of(name)


def test_a_driver_of_ones_own_answers_inside_and_not_outside():
    first, second = Stub(0), Stub(1)
    with using(first, second):
        assert driver.driver("cuda") is first
        assert driver.driver("cuda:1") is second
        assert count() == 2
        with using(second):
            assert count() == 1
            assert driver.driver("cuda:1") is second
            with pytest.raises(DeviceError, match="there is no device"):
                driver.driver("cuda:0")
        assert driver.driver("cuda:0") is first


def test_a_driver_of_ones_own_is_gone_after_an_exception():
    with pytest.raises(KeyError), using(Stub()):
        raise KeyError
    assert driver._substitutes.get() is None


def test_threads_have_drivers_of_their_own():
    """Two threads at once, each with another driver for the same name."""
    seen, barrier = {}, threading.Barrier(2)

    def work(stub):
        with using(stub):
            barrier.wait()
            seen[stub] = driver.driver()
            barrier.wait()

    stubs = [Stub(), Stub()]
    threads = [threading.Thread(target=work, args=(stub,)) for stub in stubs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {stub: stub for stub in stubs}


def test_a_thread_in_a_copy_of_the_context_has_the_driver():
    seen = []
    with using(Stub()):
        inside = contextvars.copy_context()
        thread = threading.Thread(target=inside.run, args=(lambda: seen.append(driver.driver()),))
        thread.start()
        thread.join()
        assert seen == [driver.driver()]


def test_each_gpu_is_opened_once_whichever_threads_ask(monkeypatch):
    made = []

    def opened(ordinal):
        made.append(ordinal)
        return Stub(ordinal)

    monkeypatch.setattr(driver, "_opened", {})
    monkeypatch.setattr(driver, "_real", opened)
    monkeypatch.setattr(driver, "_count", lambda device: 2)
    found, barrier = [], threading.Barrier(8)

    def work(name):
        barrier.wait()
        found.append(driver.driver(name))

    names = ["cuda:0", "cuda:1", "cuda", "cuda:0"] * 2
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [0, 1]
    assert {each.ordinal for each in found} == {0, 1}
    assert len(set(found)) == 2


def test_a_gpu_that_could_not_be_opened_is_tried_again(monkeypatch):
    tries = []

    def opened(ordinal):
        tries.append(ordinal)
        if len(tries) == 1:
            raise DeviceError("not now")
        return Stub(ordinal)

    monkeypatch.setattr(driver, "_opened", {})
    monkeypatch.setattr(driver, "_real", opened)
    monkeypatch.setattr(driver, "_count", lambda device: 1)
    with pytest.raises(DeviceError, match="not now"):
        driver.driver()
    assert driver.driver() is driver.driver()
    assert tries == [0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_told_that_it_cannot_use_the_gpu(monkeypatch):
    monkeypatch.setattr(driver, "_opened", {0: Stub()})
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            driver.driver()
            said = b"nothing"
        except DeviceError as error:
            said = str(error).encode()
        os.write(writing, said + (b" inherited" if driver.inherited() else b""))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    assert said.startswith("'cuda:0' cannot be used in a process that was forked")
    assert said.endswith("inherited")
    assert not driver.inherited()


@pytest.mark.parametrize("kind", [Stub, CoreDriver])
def test_a_driver_has_all_that_is_promised(kind):
    """What the protocol names is there, with the same parameters."""
    methods = {name: x for name, x in vars(Driver).items() if inspect.isfunction(x)}
    assert len(methods) > 15
    for name, promised in methods.items():
        if not name.startswith("_"):
            there, here = inspect.signature(promised), inspect.signature(getattr(kind, name))
            assert list(there.parameters) == list(here.parameters), name
            assert [p.default for p in there.parameters.values()] == [
                p.default for p in here.parameters.values()
            ], name
