"""Notices of long compilations."""

import io
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from functrans import config, jit
from functrans.run.call import announcing
from functrans.run.call.announcing import announced


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    found = Terminal()
    # pytest has a stderr of its own for each phase of a test
    monkeypatch.setattr(announcing, "sys", SimpleNamespace(stderr=found, modules={}))
    monkeypatch.setattr(announcing, "PATIENCE", 0.02)
    monkeypatch.setattr(config, "announce_compiles", True)
    return found


def test_what_takes_long_is_announced(terminal):
    with announced():
        deadline = time.monotonic() + 10
        while "compiling" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
        assert terminal.getvalue() == "functrans: compiling ..."
    assert terminal.getvalue().endswith(" s\n")


def test_what_is_short_is_not(terminal, monkeypatch):
    monkeypatch.setattr(announcing, "PATIENCE", 60)
    with announced():
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("quiet", ["config", "no terminal", "no stderr"])
def test_nobody_is_disturbed(terminal, quiet, monkeypatch):
    if quiet == "config":
        monkeypatch.setattr(config, "announce_compiles", False)
    elif quiet == "no terminal":
        monkeypatch.setattr(announcing.sys, "stderr", io.StringIO())
    else:
        monkeypatch.setattr(announcing.sys, "stderr", None)
    with announced():
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_a_terminal_that_is_gone_is_no_fault(terminal, monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with announced():
        terminal.close()
        time.sleep(0.05)
    assert terminal.closed
    assert failed == []


def test_an_error_passes_and_jit_announces(terminal, monkeypatch):
    with pytest.raises(ZeroDivisionError), announced():
        1 / 0  # noqa: B018
    monkeypatch.setattr(announcing, "PATIENCE", 0.0)
    assert jit(lambda x: np.sin(x) * 1.73)(0.0) == 0.0
    assert "functrans: compiling ..." in terminal.getvalue()
