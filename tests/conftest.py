"""Settings that every test shares."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from tests import amount

# What is tested is this code, and not what an earlier version of it left on the disk.
os.environ.setdefault("FUNCTRANS_CACHE", "0")
# Whatever is compiled in any test is verified after each pass.
os.environ.setdefault("FUNCTRANS_CHECK_PLANS", "1")
# Who looks for a fault of the library wants to see all frames.
os.environ.setdefault("FUNCTRANS_FULL_TRACEBACKS", "1")
# Threads of BLAS wait for each other by spinning: where several processes share the cores, for most
# of the time. Matrices are small here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Tests start many processes of Python: what they import is compiled once, and not by each of them,
# which takes three times as long as what they test.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="all that is drawn, and not a covering part (functrans)"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A job in the background ignores Ctrl-C, and tests of it would wait for ever.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # a test that is asked for by its name is run
    amount.FULL = config.getoption("--full") or any("::" in name for name in config.args)
    # No deadline: the first call of a compiled function takes as long as compiling it does.
    settings.register_profile(
        "functrans", deadline=None, print_blob=True, max_examples=amount.examples(100)
    )
    settings.load_profile("functrans")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that is collected is garbage: to look for some takes a fifth of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.hookimpl(hookwrapper=True)
def pytest_collect_file() -> Iterator[None]:
    """No docstring of a test has an example to run."""
    outcome = yield
    outcome.force_result([x for x in outcome.get_result() if not isinstance(x, DoctestModule)])


@pytest.hookimpl(tryfirst=True)  # pytest and Hypothesis look at all items that are left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    amount.mark_finer(items)
    if not amount.FULL:
        quick: list[pytest.Item] = []
        finer: list[pytest.Item] = []
        for item in items:
            (finer if item.get_closest_marker("full") else quick).append(item)
        config.hook.pytest_deselected(items=finer)
        items[:] = quick


def pytest_collection_finish() -> None:
    _take_the_runners_threads_for_ours()
    # Tests collect garbage to see what is left: not among all tests and samples, each time. And
    # what they compile stays in caches, which Python would look through again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _take_the_runners_threads_for_ours() -> None:
    """Threads by which the runner of tests hears from others change nothing that a test reads.

    Python lists them once they have asked who they are, which any finaliser may have them do.
    """
    from functrans.locks import library_threads  # only now are the settings above in place

    library_threads.update(set(sys._current_frames()) - {threading.get_ident()})


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    """A test ends the threads that it starts.

    A function that changes what it reads is traced once more while there are others
    (`functrans.api.outside`): the test that runs next may count its traces.
    """
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        if thread.name == "tqdm_monitor":  # tqdm keeps the one that it starts with a first bar
            thread.exit()  # type: ignore[attr-defined]
        if not isinstance(thread, threading._DummyThread):
            thread.join(10)
    running = set(sys._current_frames())  # Python's list keeps those that it has not started
    assert not [thread for thread in left if thread.is_alive() and thread.ident in running]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failure comes with the threads that there were: they decide how often functions trace."""
    from functrans.locks import library_threads

    report = (yield).get_result()
    if report.failed:
        threads = [
            f"{thread!r}{' (ours)' if thread.ident in library_threads else ''}"
            for thread in threading.enumerate()
        ]
        report.sections.append(("threads", "\n".join(threads)))
