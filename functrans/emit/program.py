"""A program as Python source that Numba compiles: its kernels, called in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from functrans.emit.printer import in_memory, written_tuple
from functrans.loop.statements import Buffer, Kernel
from functrans.lower.plan import Plan, Repeat, Step


def emit(
    plan: Plan,
    kernels: Mapping[Kernel, str],  # the names of the kernels' functions
    name: str = "program",
) -> str:
    """The source of a plan as a Python function.

    Its arguments are the inputs and the outputs; it returns the status. Each temporary is allocated
    by itself, and freed by Numba after its last use.
    """
    parameters = [f"in{i}" for i in range(len(plan.inputs))]
    parameters += [f"out{i}" for i in range(len(plan.outputs))]
    # an output that is stored in an input is the same array
    names: dict[Buffer, str] = dict(zip((*plan.inputs, *plan.outputs), parameters, strict=True))
    lines = ["flag = np.zeros(1, np.int64)"]
    for number, one in enumerate(plan.outputs):
        if one.shape:
            # the value that is stored may be the one before a reshape
            names[one] = f"stored{number}"
            lines.append(f"{names[one]} = out{number}.reshape({_shape(one)})")
    for step in plan.schedule:
        for one in step.buffers:
            if one not in names:
                names[one] = f"t{len(names) - len(parameters)}"
                made = f"np.empty({_shape(one)}, np.{in_memory(one.dtype)})"
                if one in plan.views:
                    base, start = plan.views[one]
                    part = f"{names[base]}.reshape(-1)[{start}:{start + one.count}]"
                    made = f"{part}.reshape({_shape(one)})"
                lines.append(f"{names[one]} = {made}")
        lines += _written(step, kernels, names)
    head = f"def {name}({', '.join(parameters)}):"
    return "\n    ".join([head, *lines, "return flag[0]"]) + "\n"


def _shape(one: Buffer) -> str:
    return written_tuple(str(int(n.attribute)) for n in one.shape)


def _written(
    step: Step | Repeat,
    kernels: Mapping[Kernel, str],
    names: Mapping[Buffer, str],
    turns: tuple[str, ...] = (),
) -> Iterator[str]:
    """A call of a kernel, or a loop over several, inside loops with the given index names."""
    if isinstance(step, Repeat):
        turn = f"turn{len(turns)}"
        if step.count is None:
            yield f"{turn} = 0"
            yield "while True:"
        else:
            yield f"for {turn} in range({step.count}):"
        for inner in step.steps:
            for line in _written(inner, kernels, names, (*turns, turn)):
                yield f"    {line}"
        if step.count is None:
            yield f"    {turn} += 1"
        return
    arrays = [
        _with_axes_of(own, one, names[one])
        for own, one in zip(step.kernel.buffers, step.buffers, strict=True)
    ]
    given = ["flag", *arrays, *map(str, step.sizes), *turns]
    yield f"{kernels[step.kernel]}({', '.join(given)}, 0, {step.extent})"
    if step.exit is not None:
        yield f"if not {names[step.exit.going]}[()]:"
        yield "    break"


def _with_axes_of(own: Buffer, given: Buffer, name: str) -> str:
    """An array as a kernel takes it: some of its axes may be merged into one."""
    return name if len(own.shape) == len(given.shape) else f"{name}.reshape({given.count})"
