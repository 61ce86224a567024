"""Target machines of code generation: their instruction sets and vector widths."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from functrans import config
from functrans.caches import cached, cached_property, once
from functrans.records import dataclass
from functrans.run.code.aside import aside
from functrans.run.code.binding import llvm

_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")

LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""Features of the levels of x86-64 beyond the first (System V ABI, AMD64 supplement, table 3.1)."""


@dataclass(frozen=True)
class Machine:
    """A CPU and an operating system, by LLVM's names."""

    triple: str
    cpu: str  # the CPU model, for tuning and for the features of the model
    features: str  # features that are added or removed: ``+avx2,-fma4``
    vector_bytes: int  # the width of its widest vector registers

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        few = self.triple.startswith(("x86_64", "amd64", "i")) and self.vector_bytes < 64
        return 16 if few else 32

    @property
    def has(self) -> set[str]:
        """The features of the CPU."""
        return {each[1:] for each in self.features.split(",") if each.startswith("+")}

    @property
    def instructions(self) -> frozenset[str]:
        """The instructions that replace functions, of `functrans.emit.llvm.scalar`.

        Also "loads", if those of single elements take less time than a gather from the caches,
        "pieces", if stores of powers of two take less time than masked ones, "quarters", if
        quarters of vectors are joined to whole ones (`functrans.emit.llvm.parts`), and "rounds", if
        several terms of sums are added in a round (`functrans.emit.llvm.unrolling`).
        """
        found = {"scalef", "quarters"} if {"avx512f", "avx512vl"} <= self.has else {"pieces"}
        if self.registers == 16:
            found.add("rounds")
        return frozenset(found | {"loads"} if self.cpu.startswith("znver") else found)

    @cached_property
    def _idle(self) -> list[Any]:
        return []

    @contextmanager
    def generator(self) -> Iterator[Any]:
        """An LLVM target machine for exclusive use.

        It is reused if possible: creating one takes longer than compiling a small kernel.
        """
        try:
            generator = self._idle.pop()
        except IndexError:
            generator = self.target_machine()
        yield generator
        self._idle.append(generator)

    def target_machine(self) -> Any:
        """A new LLVM target machine."""
        binding = llvm()
        if self.triple == binding.get_default_triple():
            binding.initialize_native_target()
            binding.initialize_native_asmprinter()
        else:
            binding.initialize_all_targets()
            binding.initialize_all_asmprinters()
        return binding.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="pic", codemodel="small", jit=True
        )


def current() -> Machine:
    """The CPU to compile for: this one, or the subset that ``functrans.config.cpu`` selects."""
    return host() if config.cpu is None else _at_most(config.cpu)


@once
def host() -> Machine:
    """The CPU of this process, with all its features."""
    triple, cpu, flags = aside(
        lambda: (
            llvm().get_default_triple(),
            llvm().get_host_cpu_name(),
            dict(llvm().get_host_cpu_features()),
        )
    )
    vectors = _widest({name for name, on in flags.items() if on})
    if flags.get("avx512f") and flags.get("avx512vl"):
        # 512-bit registers, also if LLVM's tuning for the CPU prefers 256 bits
        flags["prefer-256-bit"] = False
    if "sse4a" in flags:
        # its `insertq` has no VEX form: beside AVX instructions it takes hundreds of cycles
        flags["sse4a"] = False
    features = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items()))
    return Machine(triple, cpu, features, vectors)


def x86_64(features: Collection[str], triple: str = "x86_64-unknown-linux-gnu") -> Machine:
    """A generic x86-64 with some features."""
    written = ",".join(f"+{name}" for name in sorted(features))
    return Machine(triple, "x86-64", written, _widest(features))


@cached(len(LEVELS))
def _at_most(level: str) -> Machine:
    here = host()
    if not here.triple.startswith(("x86_64", "amd64")):
        return here
    whole = x86_64(here.has & set(LEVELS[level]), here.triple)
    if not here.has.issuperset(LEVELS[level]):
        return whole
    # LLVM schedules for a machine of the level; without one, tiles of products do not fit registers
    return replace(whole, cpu=level, features=f"{whole.features},-prefer-256-bit")


def _widest(features: Collection[str]) -> int:
    if "avx512f" in features and "avx512dq" in features:
        return 64
    return 32 if "avx2" in features else 16
