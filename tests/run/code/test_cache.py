"""Compiled code in memory and on disk: shared between kernels, programs, processes."""

import ctypes
import gc
import os
import weakref

import numpy as np
import pytest

import functrans
from functrans import grad, jit
from functrans.run.code import cache
from functrans.run.code import fingerprint as circumstances
from tests.run.processes import PROGRAM, PROGRAMS, finish, results_and_counts, run, start


def test_a_second_process_compiles_nothing(tmp_path):
    first, compiled, from_disk, _ = results_and_counts(run(PROGRAM, tmp_path))
    assert compiled >= 3
    assert from_disk == 0
    assert len(list(tmp_path.iterdir())) == compiled + PROGRAMS
    second, *counts = results_and_counts(run(PROGRAM, tmp_path))
    assert second == first
    assert counts[:2] == [0, compiled]


@pytest.mark.full
def test_damaged_files_are_compiled_again(tmp_path):
    first, compiled, *_ = results_and_counts(run(PROGRAM, tmp_path))
    files = sorted(tmp_path.iterdir())
    damages = [
        lambda x: x[:-7],
        lambda x: b"\x7fELF, but not ours",
        lambda x: files[0].read_bytes(),
    ]
    for i, file in enumerate(files):
        file.write_bytes(damages[(i + 1) % 3](file.read_bytes()))
    second, *counts = results_and_counts(run(PROGRAM, tmp_path))
    assert second == first
    assert counts[:2] == [compiled, 0]
    third, *counts = results_and_counts(run(PROGRAM, tmp_path))
    assert third == first
    assert counts[:2] == [0, compiled]


@pytest.mark.full
def test_processes_may_fill_it_at_once(tmp_path):
    outputs = [
        results_and_counts(finish(process))
        for process in [start(PROGRAM, tmp_path) for _ in range(3)]
    ]
    assert len({tuple(results) for results, *_ in outputs}) == 1
    again = results_and_counts(run(PROGRAM, tmp_path))
    assert again[0] == outputs[0][0]
    assert again[1] == 0
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.full
def test_it_can_be_switched_off(tmp_path):
    folder = tmp_path / "cache"
    _, compiled, from_disk, _ = results_and_counts(run(PROGRAM, folder, FUNCTRANS_CACHE="0"))
    assert compiled >= 3
    assert from_disk == 0
    assert not folder.exists()


@pytest.mark.full
def test_no_home_and_no_right_to_write_are_no_errors(tmp_path):
    (tmp_path / "file").write_text("in the way")
    nowhere = {"FUNCTRANS_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": str(tmp_path / "file")}
    expected = results_and_counts(run(PROGRAM, tmp_path / "cache"))
    assert results_and_counts(run(PROGRAM, tmp_path / "file"))[:2] == expected[:2]
    assert results_and_counts(run(PROGRAM, None, **nowhere))[:2] == expected[:2]


@pytest.mark.full
def test_a_user_without_a_home_has_no_cache(tmp_path):
    code = (
        "import pathlib\n"
        "def home():\n"
        "    raise RuntimeError('Could not determine home directory.')\n"
        "pathlib.Path.home = home\n"
        f"{PROGRAM}"
        "print(cache.disk())\n"
    )
    unset = dict.fromkeys(("FUNCTRANS_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"))
    *_, last = run(code, None, **unset).split()
    assert last == "None"


TEXT = """
declare i64 @other()
define i64 @answer() {
  %value = call i64 @other()
  %more = add i64 %value, ADDED
  ret i64 %more
}
"""


def constant(number):
    return cache.load(f"define i64 @constant() {{\n  ret i64 {number}\n}}\n", "constant", {})


def called(code):
    return ctypes.CFUNCTYPE(ctypes.c_int64)(code.address)()


def test_equal_text_with_other_imports_is_other_code():
    one, two = constant(1), constant(2)
    text = TEXT.replace("ADDED", "1000")
    with_one = cache.load(text, "answer", {"other": one.address})
    with_two = cache.load(text, "answer", {"other": two.address})
    assert cache.load(text, "answer", {"other": one.address}) is with_one
    assert called(with_one) == 1001
    assert called(with_two) == 1002


@pytest.mark.full
def test_code_goes_with_the_last_who_needs_it():
    code = weakref.ref(constant(77_001))
    gc.collect()
    assert code() is None
    assert called(constant(77_001)) == 77_001


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("__version__", "0.0"),
        ("FORMAT", -1),
        ("_llvm", lambda: ["libllvmlite.so 1 2"]),
        ("_cpu", lambda: ["model name: another"]),
    ],
)
def test_the_key_knows_the_versions_and_the_machine(name, other, monkeypatch):
    # worked out each time
    monkeypatch.setattr(circumstances, "_of_process", circumstances._of_process.__wrapped__)
    usual = cache.key_of("text")
    assert cache.key_of("text") == usual
    assert cache.key_of("other text") != usual
    monkeypatch.setattr(circumstances, name, other)
    assert cache.key_of("text") != usual


def test_the_machine_and_the_compiler_are_described():
    assert len(list(circumstances._llvm())) == 1
    assert len(list(circumstances._cpu())) > 1


def test_another_size_is_traced_again_and_not_compiled():
    function = jit(grad(lambda x: np.sum(np.sin(3.25 * x) ** 2)))
    function(np.linspace(0, 1, 1000))
    before = cache.statistics()
    for size in (1003, 2048, 5000):
        x = np.linspace(0, 1, size)
        np.testing.assert_allclose(function(x), 3.25 * np.sin(6.5 * x), atol=1e-12)
    after = cache.statistics()
    assert after.compiled == before.compiled
    assert after.from_disk == before.from_disk
    assert after.shared > before.shared


def test_equal_layers_cost_one():
    def network(layers):
        def apply(x):
            for _ in range(layers):
                x = np.tanh(x @ np.full((64, 64), 0.0117)) + x
            return x

        return jit(apply)

    def compiled(layers):
        before = cache.statistics().compiled
        network(layers)(np.linspace(0, 1, 64 * 128).reshape(128, 64))
        return cache.statistics().compiled - before

    few = compiled(3)
    assert compiled(12) <= 1
    assert few <= 6


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="file modes are POSIX")
def test_a_folder_open_to_others_is_left_alone(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setattr(functrans.config, "cache", True)
    monkeypatch.setattr(functrans.config, "cache_dir", tmp_path)
    assert jit(lambda x: x * 1.0625 - 7)(2.0) == -4.875
    assert list(tmp_path.iterdir()) == []
