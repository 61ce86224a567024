"""A program's driver as Python source that Numba compiles: its kernels called in order."""

from __future__ import annotations

from collections.abc import Mapping

from functrans.emit.printer import in_memory, written_tuple
from functrans.loop.statements import Buffer, Kernel
from functrans.lower.plan import Plan


def emit(plan: Plan, kernels: Mapping[Kernel, str], name: str = "program") -> str:
    """The source of a plan as a Python function.

    Its arguments are the inputs and the outputs; it returns the status. Each temporary is memory of
    its own, which Numba frees after the last step that uses it.

    Parameters
    ----------
    plan : Plan
    kernels : dict of Kernel to str
        What its kernels are called.
    name : str
    """
    parameters = [f"in{i}" for i in range(len(plan.inputs))]
    parameters += [f"out{i}" for i in range(len(plan.outputs))]
    # an output that lives in an input is one array with it
    names: dict[Buffer, str] = dict(zip((*plan.inputs, *plan.outputs), parameters, strict=True))
    lines = ["flag = np.zeros(1, np.int64)"]
    for step in plan.steps:
        for one in step.buffers:
            if one not in names:
                names[one] = f"t{len(names) - len(parameters)}"
                shape = written_tuple(str(int(n.attribute)) for n in one.shape)
                lines.append(f"{names[one]} = np.empty({shape}, np.{in_memory(one.dtype)})")
        given = ["flag", *(names[one] for one in step.buffers), *map(str, step.sizes)]
        lines.append(f"{kernels[step.kernel]}({', '.join(given)}, 0, {step.extent})")
    head = f"def {name}({', '.join(parameters)}):"
    return "\n    ".join([head, *lines, "return flag[0]"]) + "\n"
