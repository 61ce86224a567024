"""Helpers for tests of messages."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

X = np.array([1.0, 2.0, 3.0])


def message_of(kind, action):
    with pytest.raises(kind) as caught:
        action()
    assert type(caught.value) is kind
    return str(caught.value)


def located(message, function):
    """The message with its ``{here}`` filled in."""
    lines, first = inspect.getsourcelines(function)
    ((number, text),) = [(i, line) for i, line in enumerate(lines) if "# here" in line]
    file = Path(function.__code__.co_filename).name
    here = f" at {file}:{first + number} ({function.__qualname__}), `{text.strip()}`"
    return message.replace("{here}", here)
