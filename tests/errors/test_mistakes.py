"""Programs with mistakes: the text of each message, and the traceback that is shown.

`mistakes/` has a file for each theme. Each program has a title and is followed by the exact text of
the error, marked by ``>``. ``python -m tests.errors.test_mistakes`` rewrites the messages, to be
reviewed before they are committed.
"""

import linecache
import os
import re
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import functrans
from functrans import config

FOLDER = Path(__file__).parent / "mistakes"

NAMES = (
    "grad value_and_grad vjp jvp vmap jit jacfwd jacrev hessian custom_vjp custom_jvp callback "
    "checkpoint on_cotangent Aval lax debug testing"
).split()

LINES = 8
"""A message has at most so many."""

BELOW = {
    "a value that leaked": "operators of tracers would be slower",
    "a closed-over list that is appended to in a step": "operators of tracers would be slower",
    "a transform that is misspelt": "Python's own attribute look-up",
    "a NumPy function that is misspelt": "Python's own attribute look-up",
    "a training tool that is misspelt": "Python's own attribute look-up",
    "an option of config that is misspelt": "Python's own attribute look-up",
    "a setting of the wrong type": "Python's own attribute look-up",
    "two profiles at once": "the with statement's own call",
    "random numbers without a key": "not decorated",
    "a key that is a seed": "not decorated",
    "a tree.map of different structures": "called in every transform",
    "a structure of other leaves": "called in every transform",
    "a global list of traced values": "operators of tracers would be slower",
    "an optimiser that is given its state first": "not decorated",
    "an optimiser with gradients of another structure": "called in every transform",
}
"""Where frames of the library stand below the user's line, and why."""


class Mistake(NamedTuple):
    """A program with a mistake in it, and what it raises."""

    theme: str
    title: str
    code: str
    raised: str


def mistakes():
    for file in sorted(FOLDER.glob("*.txt")):
        for part in re.split(r"^# ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title, *lines = part.rstrip().split("\n")
            code = [line for line in lines if not line.startswith(">")]
            raised = [line[2:] for line in lines if line.startswith(">")]
            yield Mistake(file.stem, title, "\n".join(code), "\n".join(raised))


def run(code):
    """What a program raises, and the files of the frames in its traceback."""
    name = "mistake.py"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    scope = {each: getattr(functrans, each) for each in NAMES}
    scope |= {"np": np, "__name__": "mistake"}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            exec(compile(code, name, "exec"), scope)
        except Exception as error:
            return error, [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return None, []


def said(error):
    """A message with its notes, without addresses."""
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+', '0x...', text)}"


ALL = list(mistakes())


@pytest.mark.parametrize("mistake", ALL, ids=lambda mistake: f"{mistake.theme}: {mistake.title}")
def test_a_mistake_is_answered(mistake, monkeypatch):
    monkeypatch.setattr(config, "full_tracebacks", False)
    error, files = run(mistake.code)
    assert error is not None
    assert said(error) == mistake.raised
    assert len(mistake.raised.splitlines()) <= LINES
    ours = os.sep + "functrans" + os.sep
    shown = [file for file in files if ours in file and os.sep + "tests" + os.sep not in file]
    assert bool(shown) == (mistake.title in BELOW)
    # no frame of ours stands above one of the user's
    first = next((i for i, file in enumerate(files) if file in shown), len(files))
    assert "mistake.py" not in files[first:]


def test_there_are_many():
    assert len(ALL) >= 220
    assert len({(each.theme, each.title) for each in ALL}) == len(ALL)
    assert set(BELOW) <= {each.title for each in ALL}


def main():
    config.full_tracebacks = False
    texts = {}
    for each in ALL:
        error, _ = run(each.code)
        raised = "\n".join(f"> {line}" for line in said(error).splitlines())
        texts.setdefault(each.theme, []).append(f"# {each.title}\n{each.code}\n{raised}\n")
    for theme, parts in texts.items():
        (FOLDER / f"{theme}.txt").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
