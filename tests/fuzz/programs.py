"""Random programs, and their reduction when they fail."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.fuzz.operations import Draw, Drawn, drawn

EXTENTS = (0, 1, 1, 2, 3, 17, 64, 300, 2600)
ODD_EXTENTS = (0, 1, 2, 3, 5, 7, 13, 15, 17, 31, 33, 65, 130)
LARGEST = 30_000
"""Elements of a value at most."""
MAGNITUDE = 1e6


@dataclass(frozen=True)
class Program:
    """A function of arrays: its steps in order, each a function of values before it."""

    inputs: tuple[np.ndarray, ...]
    steps: tuple[Drawn, ...]
    outputs: tuple[int, ...]

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        values = self.values(*inputs)
        return tuple(values[i] for i in self.outputs)

    def values(self, *inputs: Any) -> list[Any]:
        """The inputs, and what each step gives."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.apply(*(values[i] for i in step.operands)))
        return values

    def __str__(self) -> str:
        lines = [f"v{i}: {x.dtype}{list(x.shape)}" for i, x in enumerate(self.inputs)]
        for i, step in enumerate(self.steps, len(self.inputs)):
            lines.append(f"v{i} = {step.text} of {', '.join(f'v{j}' for j in step.operands)}")
        lines.append("returns " + ", ".join(f"v{i}" for i in self.outputs))
        return "\n".join(lines)

    def without(self, number: int) -> "Program":
        """The program without a step; what used its value takes its first operand instead."""
        gone = len(self.inputs) + number
        instead = self.steps[number].operands[0]

        def moved(i: int) -> int:
            i = instead if i == gone else i
            return i - (i > gone)

        steps = [
            step._replace(operands=tuple(map(moved, step.operands)))
            for i, step in enumerate(self.steps)
            if i != number
        ]
        return replace(self, steps=tuple(steps), outputs=tuple(map(moved, self.outputs)))


def draw(rng) -> Program:
    """A program whose values are all of moderate size."""
    extents = ODD_EXTENTS if rng.random() < 0.4 else EXTENTS
    dims = [int(rng.choice(extents)) for _ in range(3)]
    while np.prod(dims, dtype=float) > LARGEST:
        dims[int(rng.integers(3))] = int(rng.choice(extents[:5]))
    inputs = []
    kind = np.float32 if rng.random() < 0.1 else np.float64
    for _ in range(int(rng.integers(1, 4))):
        shape = tuple(int(n) if rng.random() < 0.8 else 1 for n in dims[int(rng.integers(4)) :])
        if rng.random() < 0.15:
            dtype = rng.choice([np.int64, np.int32, np.int8])
            limits = np.iinfo(dtype)
            inputs.append(
                rng.integers(limits.min, limits.max, size=shape, dtype=dtype, endpoint=True)
            )
        else:
            x = np.asarray(rng.normal(size=shape), kind)
            inputs.append(x if rng.random() < 0.9 else x * kind(0.6) + 1j * np.cos(x))
    values = list(inputs)
    steps: list[Drawn] = []
    with np.errstate(all="ignore"):
        while len(steps) < rng.integers(2, 14):
            step = drawn(Draw(rng, values))
            if step is None:
                continue
            value = np.asarray(step.apply(*(values[i] for i in step.operands)))
            if value.size > LARGEST or value.ndim > 5 or value.dtype.kind not in "fiubc":
                continue
            if value.dtype.kind in "fc" and not (np.abs(value) < MAGNITUDE).all():
                continue
            values.append(value)
            steps.append(step)
    last = len(values) - 1
    others = rng.choice(len(values), size=int(rng.integers(0, 3)))
    return Program(tuple(inputs), tuple(steps), tuple(dict.fromkeys([last, *map(int, others)])))


def shrunk(program: Program, fails) -> Program:
    """A smaller program that fails, too."""
    smaller = True
    while smaller:
        smaller = False
        for number in reversed(range(len(program.steps))):
            try:
                candidate = program.without(number)
                candidate(*candidate.inputs)
            except Exception:
                continue
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program
