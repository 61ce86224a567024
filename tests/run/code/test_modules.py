"""The `.ll` files are valid modules, and their constants agree with those in Python."""

import re
from pathlib import Path

import pytest

import functrans
from functrans.loop.failures import INTERRUPTED, OUT_OF_MEMORY
from functrans.run.call import entry, guards, inline_cache, layouts, memory, steps, timeline
from functrans.run.code.modules import joined
from functrans.run.code.native import compile_object
from functrans.run.threads import pool

PACKAGE = Path(functrans.__file__).parent
FILES = {file.name: file for file in sorted(PACKAGE.rglob("*.ll"))}

llvm = pytest.importorskip("llvmlite.binding")

# Each file: the names that instructions give to what they make with a number, and the number.
NUMBERS = {
    "pool.ll": {
        "share.p": pool.SHARE,
        "worker.p": pool.WORKER,
        "word": pool.SHARES,
    },
    "steps.ll": {
        "bytes.p": steps.ARENA_BYTES,
        "kept.p": steps.KEPT_ARENA,
        "total.p": steps.TOTAL,
        "share.p": pool.SHARE,
        "release.p": steps.RELEASES,
        "signals.p": steps.SIGNALS,
        "timeline.p": steps.TIMELINE,
        "number.p": steps.NUMBER,
        "count.p": timeline.COUNT,
        "flag": steps.FLAG_WORDS,
        "events.p": timeline.EVENTS,
        "stopped": INTERRUPTED,
    },
    "data_of.ll": {
        "type.p": layouts.TYPE,
        "inside": layouts.NUMBER,
        "data.p": layouts.DATA,
        "nd.p": layouts.AXES,
        "dims.p": layouts.EXTENTS,
        "descr.p": layouts.DTYPE,
        "flags.p": layouts.FLAGS,
        "good": layouts.CONTIGUOUS | layouts.ALIGNED,
        "flags.ok": layouts.CONTIGUOUS | layouts.ALIGNED,
    },
    "inline_cache.ll": {
        "inside": layouts.NUMBER,
        "not.raised": INTERRUPTED,
        "is.small": entry.LARGEST_ON_STACK,
        "nodes": inline_cache.NODES,
    },
    "guards.ll": {
        "type.p": layouts.TYPE,
    },
    "entry.ll": {
        "data.p": layouts.DATA,
        "raised": INTERRUPTED,
        "table.p": layouts.DATA,
        "total.p": steps.TOTAL,
        "frame.p": steps.FRAME,
        "records": steps.HEADER_WORDS,
        "is.small": entry.LARGEST_ON_STACK,
    },
    "memory.ll": {
        "is.large": memory.LARGE,
        "word": memory.SLOTS,
        "more": memory.COUNT,
        "next.new": memory.COUNT,
        "kept.p": memory.KEPT,
        "limit.p": memory.LIMIT,
    },
}


# what Python writes where these words are
FILLED_IN = {"PLACE": "24", "CLOCK": "1", "HANDLE": "i32"}
FILLED_IN |= {"NUMBER": "double", "BITS": "f64", "OPERATION": "max"}


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_a_module(name):
    text = FILES[name].read_text(encoding="utf-8")
    for word, number in FILLED_IN.items():
        text = text.replace(word, number)
    llvm.parse_assembly(text).verify()


@pytest.mark.parametrize(
    ("file", "name", "number"),
    [(file, name, number) for file, numbers in NUMBERS.items() for name, number in numbers.items()],
)
def test_numbers_are_those_that_python_goes_by(file, name, number):
    text = FILES[file].read_text(encoding="utf-8")
    found = re.findall(rf"%{re.escape(name)} = .* (-?\d+) *(?:;.*)?$", text, re.MULTILINE)
    assert found
    assert set(found) == {str(number)}


@pytest.mark.parametrize("form", [r"ret i64 (\d+)$", r"\[ (\d+), %on.heap \]"])
def test_what_is_said_when_there_is_no_memory(form):
    text = FILES["steps.ll"].read_text(encoding="utf-8") + FILES["entry.ll"].read_text("utf-8")
    assert re.findall(form, text, re.MULTILINE) == [str(OUT_OF_MEMORY)]


def test_a_declaration_goes_where_there_is_a_definition(tmp_path):
    one, other = tmp_path / "one.ll", tmp_path / "other.ll"
    one.write_text("declare i64 @f(i64)\ndeclare i64 @g()\n")
    other.write_text("define internal i64 @f(i64 %x) {\n  ret i64 %x\n}\n")
    module = llvm.parse_assembly(joined(one, other))
    module.verify()
    assert {f.name: f.is_declaration for f in module.functions} == {"f": False, "g": True}


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64", "riscv64"])
def test_threads_need_nothing_else_of_a_cpu(architecture):
    llvm.parse_assembly(pool.text(architecture)).verify()


def test_the_instructions_of_guards_are_those_of_the_machine():
    (cases,) = re.findall(
        r"switch i64 %op, label %no \[(.*?)\]", FILES["guards.ll"].read_text(), re.S
    )
    numbers = [int(number) for number in re.findall(r"i64 (\d+),", cases)]
    assert numbers == list(range(guards.REFERENTS + 1))


def test_generated_code_is_verified_by_llvm_too():
    text = """
    define void @f() {
      br label %last
    unreached:
      %x = add i32 1, 2
      br label %last
    last:
      %y = add i32 %x, 1
      ret void
    }
    """
    with pytest.raises(RuntimeError, match="does not dominate all uses"):
        compile_object(text)
