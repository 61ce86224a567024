"""Work on a helper thread while the calling thread waits."""

import threading

import pytest

from functrans.run.code import aside as module
from functrans.run.code.aside import aside


def test_the_result_and_the_thread():
    here = threading.get_ident()
    found, where = aside(lambda: (42, threading.get_ident()))
    assert found == 42
    assert where != here


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), KeyboardInterrupt()])
def test_an_exception_is_the_callers(error):
    def work():
        raise error

    with pytest.raises(type(error)) as caught:
        aside(work)
    assert caught.value is error


def test_outside_of_the_main_thread_it_is_done_at_once():
    found = []
    thread = threading.Thread(target=lambda: found.append(aside(threading.get_ident)))
    thread.start()
    thread.join()
    assert found == [thread.ident]


def test_at_the_end_of_the_process_it_is_done_at_once(monkeypatch):
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(module, "_ending", ending)
    assert aside(threading.get_ident) == threading.get_ident()
