"""Targets that are made up: the CPU with other thresholds, and the host taken for one of them."""

from dataclasses import replace

from functrans.loop.target import CPU
from functrans.run.code import host


def target(base=CPU, **changes):
    """A target like another: facts by their names, and of records of thresholds those to change."""
    records = {
        name: getattr(base, name)._replace(**new)
        for name, new in changes.items()
        if isinstance(getattr(base, name), tuple) and hasattr(getattr(base, name), "_replace")
    }
    return replace(base, **{**changes, **records})


def take_host_for(monkeypatch, **changes):
    """Plan for the host as if it were another machine."""
    other = target(host.kind(), **changes)
    monkeypatch.setattr(host, "other", other)
