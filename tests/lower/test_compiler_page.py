"""docs/compiler.md shows one program after every stage of the pipeline.

``python -m tests.lower.test_compiler_page`` rewrites the page.
"""

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np

from functrans import jit, trace
from functrans.emit.cuda import kernel as cuda
from functrans.emit.llvm import kernel as llvm
from functrans.lazily import Lazy
from functrans.loop.target import CPU
from functrans.lower import overview, pipeline
from functrans.lower.grid.target import CUDA
from functrans.optimise import optimise
from functrans.optimise.passes import FOR_CORES, SIMPLIFICATION
from functrans.scipy import special

PAGE = Path(__file__).parents[2] / "docs" / "compiler.md"

PROGRAM = """\
import numpy as np

def attention(query, keys):
    scores = query @ keys.T
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True)
"""

HEAD = f"""\
# The compiler, stage by stage

This page shows what `jit` does to a function, stage by stage, on a small program: a softmax over
the rows of a matrix product.

```python
{PROGRAM}```

You can print the same for any function: `print(jit(f).lower(*args).stages())`. The list of stages
is `STAGES` in `functrans/lower/pipeline.py`. This page is generated from it, and a test checks that
they agree. [glossary.md](glossary.md) defines the terms.

## Tracing

`jit` calls the function with tracers in place of its arrays, which record the operations applied to
them (`functrans/trace/`). Transforms (`functrans/transform/`) map such graphs to graphs.
"""


def quoted(text, language="text"):
    return f"```{language}\n{text.strip()}\n```\n"


def function_of(each):
    return each.run.resolve() if isinstance(each.run, Lazy) else each.run


def table(passes):
    """Graph passes: what each does, expects and leaves, and the reason for its position."""
    yield "| Pass | What it does | Expects | Leaves | Reason for its position |\n"
    yield "|---|---|---|---|---|\n"
    for each in passes:
        head, *_, promises = inspect.getdoc(function_of(each)).split("\n\n")
        expects, leaves = promises.removeprefix("Expects ").split("Leaves ")
        cells = (f"`{each.name}`", head, expects, leaves, each.because)
        yield "| " + " | ".join(" ".join(cell.split()).rstrip(".") for cell in cells) + " |\n"


def section(stage, text, before):
    """A stage: what its docstring says, its two lines as a list, and what it leaves."""
    *words, promises = inspect.getdoc(stage.run).split("\n\n")
    assert promises.startswith("Expects ")
    listed = promises.replace("Expects ", "- Expects ").replace("\nLeaves ", "\n- Leaves ")
    body = quoted(text) if text != before else "This stage does not change this program.\n"
    described = "\n\n".join([*words, listed.replace("\n", "\n  ").replace("\n  -", "\n-")])
    return f"## {stage.name.capitalize()}\n\n{described}\n\n{body}"


def page():
    namespace = {}
    exec(PROGRAM, namespace)
    arguments = np.ones((100, 64)), np.ones((300, 64))
    traced = trace(namespace["attention"])(*arguments)
    graph = optimise(traced)
    parts = [HEAD, quoted(str(traced))]
    parts += [
        "## Optimising\n\n`functrans/optimise/passes.py` lists the passes over graphs. Like the "
        "stages below, each has a precondition, a postcondition with a check, and a reason for its "
        "position. `functrans.config.skip_passes` leaves passes out. The first list is independent "
        "of the machine, and its passes do not change a bit of the results:\n",
        "".join(table(SIMPLIFICATION)),
        quoted(str(graph)) if graph != traced else "These passes do not change this program.\n",
    ]
    before = str(graph)
    for stage, _, text in overview.shown(graph, CPU):
        part = section(stage, text, before)
        if stage.name == "rewriting":
            listed = "".join(table((*FOR_CORES.legalisation, *FOR_CORES.machine)))
            part = part.replace("\n\n```", f"\n\n{listed}\n```", 1)
        parts.append(part)
        before = text
    plan = pipeline.plan(graph, CPU)
    kernel = plan.kernels[-1]
    loop = [line for line in llvm.emit(kernel).splitlines() if "load <8 x double>" in line][:2]
    parts += [
        "## Emitting\n\nKernels are printed as LLVM IR (`functrans/emit/llvm/`), which is "
        "compiled to machine code (`functrans/run/code/`), and as Numba source "
        "(`functrans/emit/source.py`), for readers and for the back end `numba`. Neither printer "
        "refers to a primitive. In the LLVM IR, the loop over columns reads the scores as vectors "
        "of eight elements:\n",
        quoted("\n".join(line.strip() for line in loop), "llvm"),
        "An innermost loop with many addresses, unless it carries sums, passes its counter through "
        'empty assembly code (`call i64 asm "", "=r,0"`). So LLVM computes the addresses as they '
        "are written, and does not look for induction variables for them, which took up to two "
        "thirds of its time.\n",
        "Loops of a kernel that are equal but for buffers, sizes and other numbers become one "
        "function of its module, which the kernel calls (procedural abstraction, "
        "`functrans/loop/repetition.py`): the passes of the Fourier transforms in the body of a "
        "loop over time steps are compiled once.\n",
        "## Running\n\nA program is called with the addresses of its arrays "
        "(`functrans/run/call/`). Threads share the outermost loops of its kernels "
        "(`functrans/run/threads/`). Products and decompositions without a kernel of their own "
        "call BLAS and LAPACK (`functrans/run/blas.py`).\n",
        quoted(
            "from functrans import jit\n\n"
            "rng = np.random.default_rng(0)\n"
            "query, keys = rng.standard_normal((100, 64)), rng.standard_normal((300, 64))\n"
            "compiled = jit(attention)\n"
            "assert np.allclose(compiled(query, keys), attention(query, keys))\n"
            "assert '== fusion' in compiled.lower(query, keys).stages()",
            "python",
        ),
        *on_a_gpu(graph),
    ]
    return "\n".join(parts)


def on_a_gpu(graph):
    """What a grid's stages leave, where they are others than those of the CPU."""
    # (tiles of products are written out, which makes long kernels)
    machine = replace(CUDA, grid=CUDA.grid._replace(tiles=()))
    shown = {stage.name: (stage, text) for stage, _, text in overview.shown(graph, machine)}
    stages = pipeline.pipeline_of(CUDA).stages
    own = [stage.name for stage in stages if stage not in pipeline.STAGES]
    kernel = pipeline.plan(graph, machine).kernels[-1]
    yield (
        "## On a GPU\n\nFor a GPU (`CUDA` in `functrans/lower/grid/target.py`) the list of\n"
        "stages is `functrans/lower/grid/pipeline.py`. It has the same stages with other\n"
        "thresholds, and stages of its own: "
        f"{', '.join(own)}. [cuda.md](cuda.md) says how to print such programs,\n"
        "which needs no GPU. The same program is shown below, but without tiled products, whose\n"
        "kernels are long.\n"
    )
    for name in own:
        stage, text = shown[name]
        yield section(stage, text, None).replace("## ", "### ", 1)
    yield (
        "### Emitting Numba-CUDA\n\nKernels are printed as functions that each thread runs "
        "(`functrans/emit/cuda/`), on flat arrays. This is the last one:\n"
    )
    yield quoted(cuda.emit(kernel, CUDA.grid, "nest"), "text")


def test_the_page_is_what_the_list_makes():
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.lower.test_compiler_page"


def test_every_stage_says_what_it_expects_and_leaves():
    for stage in {*pipeline.STAGES, *pipeline.pipeline_of(CUDA).stages}:
        words = inspect.getdoc(stage.run)
        assert "Expects " in words and "Leaves " in words, stage.name


def test_stages_can_be_looked_at():
    lowered = jit(lambda x: special.struve(1.0, np.sin(x)) + 1.0).lower(np.ones(4000))
    text = lowered.stages()
    for stage in pipeline.STAGES:
        assert f"== {stage.name} (" in text
    assert "== call NumPy: struve" in text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
