"""Registers of kernels: the assembler's numbers agree with docs/measurements.md."""

import re

import pytest

from functrans import jit
from functrans.lower.grid.target import CUDA
from functrans.run.cuda import launches
from tests.emit.cuda.special import needs_compiler
from tests.run.cuda import registers
from tests.targets import target

pytestmark = needs_compiler

# The blocks of a multiprocessor that registers leave room for, which relocatable code had not.
ROOM = {
    "`x.sum(axis=1)`, 4096 x 1024": 1.0,
    "`x.sum(axis=0)`, 2^20 x 16": 1.0,
    "layer norm, rows of 1024": 1.0,
    "product, 4096, float32": 0.25,
    "product, 2048, float64": 0.125,
    "attention, 64 heads, 1024 x 64": 0.375,
    "LSTM, 32 sequences, 64 units": 0.5,
}


@pytest.mark.parametrize("name", ROOM)
def test_kernels_take_no_registers_for_callers(name):
    assert registers.largest(name, "sm_90").occupancy >= ROOM[name]


def test_where_few_registers_are_too_many_for_another_block_they_are_saved(monkeypatch):
    monkeypatch.setattr(launches, "CUDA", target(CUDA, grid={"double_tiles": ()}))
    found = registers.largest("product, 2048, float64", "sm_100")
    assert found.occupancy >= 0.5
    assert found.spills == 0


def test_products_and_sums_stay_apart_when_they_are_linked():
    function, operands = registers.PROGRAMS["layer norm, rows of 1024"]
    text = jit(function).lower(*operands, device="cuda", architecture="sm_90").ptx()
    assert re.search(r"add\.rn\.f32|add\.f32", text)
    assert "fma" not in text


@pytest.mark.full
def test_the_page_has_the_table():
    if registers.compiler() not in registers.written():
        pytest.skip("the table is of another version of NVIDIA's compiler")
    assert registers.written() == registers.section(), "run python -m tests.run.cuda.registers"
