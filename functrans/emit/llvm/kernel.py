"""Code emission for CPUs: kernels of the loop language as LLVM modules.

Every kernel becomes one function::

    void kernel(int64_t start, int64_t stop, void *data)

``start`` and ``stop`` are the range of a parallel loop to execute (other kernels ignore them).
``data`` points to words: the address of the status flag (followed by that of the function that long
loops call from time to time, `functrans.emit.llvm.polling`), those of the buffers, and the sizes.

Its loops that are equal to others become procedures, which it calls (`functrans.loop.repetition`).
"""

from __future__ import annotations

from collections.abc import Iterable

from functrans.emit.llvm import polling
from functrans.emit.llvm.expression import Expressions
from functrans.emit.llvm.memory import pointers_to
from functrans.emit.llvm.statements import Statements
from functrans.emit.llvm.text import Writer, memory_type, register_type
from functrans.loop.functions import often
from functrans.loop.repetition import repeated
from functrans.loop.statements import Buffer, For, Kernel
from functrans.loop.walk import assigned, loaded, stored

ENTRY = "kernel"


def emit(kernel: Kernel, instructions: frozenset[str] = frozenset()) -> str:
    """The text of an LLVM module that defines the kernel as the function ``kernel``.

    The ``instructions`` of the machine replace functions (`functrans.loop.functions.Function`).
    """
    writer = Writer(instructions)
    function = _Function(kernel, writer, 0, _Module(kernel))
    split = kernel.parallel
    if split is not None:
        function.loop(split, ("%start", "%stop"))
    else:
        function.statements(kernel.body)
    sizes = [f"i64 %s{i}" for i in range(kernel.sizes)]
    body = function.text("body", [*sizes, "i64 %start", "i64 %stop"])
    lines = [*writer.global_lines(), *writer.declarations.values(), *writer.texts, body]
    return "\n".join([*lines, *_entry(kernel, function.passed)]) + "\n"


class _Module:
    """What the functions of a module share."""

    def __init__(self, kernel: Kernel) -> None:
        self.sizes, self.turns = kernel.sizes, kernel.turns
        self.called = often(kernel)
        self.uses = repeated(kernel.body)
        self.procedures: dict[For, tuple[str, bool]] = {}
        """The names of procedures, and whether they poll."""


class _Function(Statements):
    """The body of a kernel, or a procedure, which is like a kernel that is called by others."""

    def __init__(self, kernel: Kernel, writer: Writer, depth: int, module: _Module) -> None:
        self.module = module
        pointers = pointers_to(kernel.buffers)
        self.passed = dict.fromkeys(pointers.values())  # parameters
        for buffer in kernel.scratch:
            pointers[buffer] = _scratch(buffer, writer)
        self.written = {pointers[buffer] for buffer in stored(kernel.body)}
        changing = loaded(kernel.body) & stored(kernel.body)
        sizes = [f"%s{i}" for i in range(kernel.sizes)]
        expressions = Expressions(writer, pointers, sizes, changing, module.called)
        expressions.extents = kernel.sizes - kernel.turns
        super().__init__(expressions, assigned(kernel.body), depth, module.uses)

    def text(self, name: str, numbers: Iterable[str]) -> str:
        """The function, whose pointers do not alias; ends it."""
        writer = self.writer
        writer.line("ret void")
        if self.polls:
            writer.start(polling.STOPPED)
            writer.line("ret void")
        pointers = [f"{'' if x in self.written else 'readonly '}{x}" for x in self.passed]
        parameters = ", ".join([*(f"ptr noalias {x}" for x in ["%flag", *pointers]), *numbers])
        head = f"define internal void @{name}({parameters}) noinline nounwind {{"
        return "\n".join([head, "entry:", *writer.allocas, *writer.lines, "}"])

    def procedure(self, loop: For) -> tuple[str, bool]:
        procedures = self.module.procedures
        if loop not in procedures:
            use, writer = self.uses[loop], self.writer.for_function()
            kernel = Kernel(use.buffers, self.module.sizes, (loop,), turns=self.module.turns)
            inner = _Function(kernel, writer, self.depth, self.module)
            numbers = []
            for i, number in enumerate(use.numbers):
                name = f"%s{number.attribute}" if number.op == "size" else f"%known{i}"
                numbers.append(f"{register_type(number.dtype)} {name}")
                inner.expressions.given(number, name)
            inner.loop(loop)
            name = f"loop{len(procedures)}"
            writer.texts.append(inner.text(name, numbers))
            procedures[loop] = name, inner.polls
        return procedures[loop]


def _scratch(buffer: Buffer, writer: Writer) -> str:
    """Stack memory that lasts until the function returns."""
    count = "1"
    for extent in buffer.shape:
        factor = f"%s{extent.attribute}" if extent.op == "size" else str(extent.attribute)
        product = "%" + writer.name("n")
        writer.allocas.append(f"  {product} = mul i64 {count}, {factor}")
        count = product
    slot = "%" + writer.name("row")
    writer.allocas.append(f"  {slot} = alloca {memory_type(buffer.dtype)}, i64 {count}, align 64")
    return slot


def _entry(kernel: Kernel, passed: Iterable[str]) -> list[str]:
    """The entry function, which unpacks the words and calls the body.

    It is not optimised (`optnone`): the code is the same, and LLVM has fewer passes to run.
    """
    lines = [f"define void @{ENTRY}(i64 %start, i64 %stop, ptr %data) noinline optnone nounwind {{"]
    arguments = []
    count = len(kernel.buffers)
    words = [(0, "ptr"), *((1 + i, "ptr") for i in range(count) if f"%b{i}" in passed)]
    words += [(1 + count + i, "i64") for i in range(kernel.sizes)]
    for word, kind in words:
        lines.append(f"  %p{word} = getelementptr i64, ptr %data, i64 {word}")
        lines.append(f"  %w{word} = load {kind}, ptr %p{word}")
        arguments.append(f"{kind} %w{word}")
    arguments += ["i64 %start", "i64 %stop"]
    return [*lines, f"  call void @body({', '.join(arguments)})", "  ret void", "}"]
