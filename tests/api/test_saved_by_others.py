"""Damaged or untrusted program files are validated or refused."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from functrans import (
    extend,
    grad,
    lax,
    load,
    save,
)
from functrans.errors import SavedProgramError
from tests.api.test_saved import FUNCTIONS, TABLE, X, looped, rewritten


def first(data):
    return data["graph"]["equations"][0]


DAMAGES = {
    "no format": lambda d: d.pop("format"),
    "another format": lambda d: d.update(format="onnx"),
    "an operand that is not there": lambda d: first(d)["operands"].append(99),
    "an operand before its time": lambda d: first(d).update(operands=[2, 2]),
    "a negative operand": lambda d: first(d).update(operands=[-1, 0]),
    "another type": lambda d: first(d)["results"][0].__setitem__(0, [7]),
    "a shape of text": lambda d: d["graph"]["inputs"][0].__setitem__(0, ["3"]),
    "no such dtype": lambda d: d["graph"]["inputs"][0].__setitem__(1, "O"),
    "a parameter too many": lambda d: first(d)["parameters"].update(extra=1),
    "a kind that is not known": lambda d: first(d)["parameters"].update(extra={"pickle": "x"}),
    "one output less": lambda d: d["graph"]["outputs"].clear(),
    "another structure": lambda d: d.update(arguments={"tuple": [{"tuple": []}, {"dict": []}]}),
    "a structure of another kind": lambda d: d.update(results={"set": [0]}),
    "captures that are not there": lambda d: d.update(captures=4),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files(name, tmp_path):
    path = tmp_path / "p"
    save(lambda x: TABLE.T @ x + 1.0, path, X)
    rewritten(path, DAMAGES[name])
    with pytest.raises(SavedProgramError, match="is no program that functrans saved, or it is"):
        load(path)


def test_an_index_outside_of_an_array(tmp_path):
    def far(data):
        for eqn in data["graph"]["equations"]:
            if "index" in eqn["parameters"]:
                eqn["parameters"]["index"]["tuple"][0]["tuple"][0] = 5000

    for function in (lambda x: x[1:3] * 2.0, lambda x: x.at[1:3].set(0.0)):
        save(function, tmp_path / "p", np.arange(8.0))
        rewritten(tmp_path / "p", far)
        with pytest.raises(SavedProgramError, match="is not within an array of shape"):
            load(tmp_path / "p")


def test_files_cut_short_and_foreign_ones(tmp_path):
    path = tmp_path / "p"
    save(lambda x: TABLE.T @ x, path, X)
    whole = path.read_bytes()
    cut = whole[: len(whole) // 2], whole[:4] + whole[4:200]
    for content in (b"", *cut, b"text", pickle.dumps(X)):
        path.write_bytes(content)
        with pytest.raises(SavedProgramError, match="is no program"):
            load(path)
    np.savez(tmp_path / "other.npz", x=X)
    with pytest.raises(SavedProgramError, match="is no program"):
        load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


def test_a_structure_without_end(tmp_path):
    path = tmp_path / "p"
    save(np.sum, path, X)
    with zipfile.ZipFile(path) as z:
        text = z.read("program.json").decode()
    for deep in ('{"list": [' * 990 + "0" + "]}" * 990, "[" * 10**5):
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("program.json", text.replace('"results": 0', f'"results": {deep}'))
        with pytest.raises(SavedProgramError, match="is no program"):
            load(path)


@pytest.mark.parametrize("version", [1, 3])
def test_another_version(tmp_path, version):
    save(np.sum, tmp_path / "p", X)
    rewritten(tmp_path / "p", lambda d: d.update(version=version))
    with pytest.raises(SavedProgramError, match=f"has version {version} of the format, and this"):
        load(tmp_path / "p")


def test_a_file_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    path = tmp_path / "p"
    save(lambda x: TABLE.T @ x, path, X)
    content = io.BytesIO()
    np.save(content, np.array([Bomb()], object), allow_pickle=True)
    with zipfile.ZipFile(path) as z:
        program = z.read("program.json")
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("program.json", program)
        z.writestr("0.npy", content.getvalue())
    with pytest.raises(SavedProgramError, match="is no program"):
        load(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.full
def test_another_process(tmp_path):
    path = tmp_path / "p"
    save(grad(FUNCTIONS["captures"]), path, X)
    code = (
        "import sys, numpy, functrans\n"
        "print(functrans.load(sys.argv[1])(numpy.array([0.5, -1.0, 2.0])))"
    )
    root = Path(__file__).parents[2]
    out = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ).stdout  # fmt: skip
    assert out.strip() == str(grad(FUNCTIONS["captures"])(X))


def altered(path, function, x, operation, **parameters):
    """A file whose equations of one kind have other parameters, its results of any shape."""

    def change(graph):
        for eqn in graph["equations"]:
            if eqn["operation"] == operation:
                eqn["parameters"].update(parameters)
            for value in eqn["parameters"].values():
                if isinstance(value, dict) and "graph" in value:
                    change(value["graph"])

    save(function, path, x)
    rewritten(path, lambda data: change(data["graph"]))
    return path


HOSTILE = {
    "an axis from the end": (np.cumsum, "cumsum", {"axis": -1}),
    "a step of nothing": (
        lambda x: x[1:3] * 2.0, "slice",
        {"index": {"tuple": [{"tuple": [1, 2, 0]}]}},
    ),
    "a truth that is a number": (lambda x: np.cumsum(x), "cumsum", {"reverse": 2}),
    "room in stacks": (
        lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x),
        "while_loop", {"room": 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_parameters_out_of_range(name, tmp_path):
    function, operation, parameters = HOSTILE[name]
    path = altered(tmp_path / "p", function, X, operation, **parameters)
    with pytest.raises(SavedProgramError, match=f"{operation} has no "):
        load(path)


def test_a_count_of_steps_that_is_not_the_stacks_own(tmp_path):
    def limited(x):
        return np.sum(lax.while_loop(lambda c: np.sum(c) < 50, np.exp, x, max_steps=20))

    path = tmp_path / "p"
    save(grad(limited), path, X)
    np.testing.assert_allclose(load(path)(X), grad(limited)(X))

    def more_steps(data):
        for eqn in data["graph"]["equations"]:
            if eqn["operation"] == "counted_scan":
                eqn["operands"][0] = [[], "int64", False, (10**6).to_bytes(8, "little").hex()]

    rewritten(path, more_steps)
    assert load(path)(X).shape == X.shape  # no more rows are read than there are


def test_bytes_that_are_turned_over(tmp_path):
    path = tmp_path / "p"
    save(looped, path, X)
    whole, expected = path.read_bytes(), load(path)(X)
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, len(whole), 40):
        content = bytearray(whole)
        content[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        try:
            np.testing.assert_array_equal(load(path)(X), expected)
        except SavedProgramError:
            refused += 1
    assert refused > 20


@pytest.mark.full
def test_operations_of_the_users_that_are_too_large_to_be_verified(tmp_path):
    turned = extend.primitive(
        "turned_for_a_file",
        infer=lambda x: x.update(),
        numpy=lambda x: x[::-1],
        pull=lambda read, index, x: read(0, (x.shape[0] - 1 - index[0], *index[1:])),
    )
    path = tmp_path / "p"
    save(turned, path, X)
    np.testing.assert_array_equal(load(path)(X), X[::-1])
    x = np.arange(3e6)
    save(turned, path, x)
    with pytest.raises(SavedProgramError, match="turned_for_a_file is too large to be verified"):
        load(path)
    np.testing.assert_array_equal(load(path, trusted=True)(x), x[::-1])
