"""Targets that are made up: the CPU with other thresholds, and the host taken for one of them."""

from dataclasses import is_dataclass, replace

from functrans.loop.target import CPU
from functrans.run.code import host


def target(base=CPU, **changes):
    """A target like another: facts by their names, and of records of thresholds those to change."""
    records = {
        name: replace(getattr(base, name), **new)
        for name, new in changes.items()
        if is_dataclass(getattr(base, name))
    }
    return replace(base, **{**changes, **records})


def take_host_for(monkeypatch, **changes):
    """Plan for the host as if it were another machine."""
    other = target(host.kind(), **changes)
    monkeypatch.setattr(host, "kind", lambda: other)
