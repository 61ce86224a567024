"""The digits example runs completely, and prints the right results."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("examples_digits", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(digits, tmp_path_factory):
    picture = tmp_path_factory.mktemp("digits") / "hardest.png"
    return (*digits.main(["--picture", str(picture)]), picture)


@pytest.fixture(scope="module")
def few(digits):
    """A few images, and the parameters of a network that has seen none."""
    rng = np.random.default_rng(0)
    training, _ = digits.load(rng)
    return digits.init(rng), digits.Data(training.x[:5], training.y[:5])


@pytest.mark.dear
def test_the_network_learns(run):
    accuracy, *_ = run
    assert accuracy >= 0.96


@pytest.mark.dear
def test_a_picture_of_the_hardest_is_saved(run):
    *_, picture = run
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000


def test_most_images_pull_little_and_a_few_pull_hard(run):
    _, norms, *_ = run
    assert norms.shape == (1797,)
    assert np.all(np.isfinite(norms)) and np.all(norms >= 0.0)
    assert np.max(norms) > 100 * np.median(norms)


@pytest.mark.dear
def test_the_gradients_of_all_images_are_those_of_each(digits, few):
    params, data = few
    for norm, x, y in zip(digits.gradient_norms(params, data), *data, strict=True):
        parts = digits.tree.leaves(digits.grad(digits.loss)(params, x, y))
        np.testing.assert_allclose(norm, np.sqrt(sum(np.sum(g**2) for g in parts)))


def test_the_weights_are_the_most_likely_and_the_errors_are_those_of_the_formula(digits, run):
    """By hand, the gradient is X' (p - t) and the Hessian X' diag(p (1 - p)) X."""
    _, _, weights, errors, _ = run
    training, test = digits.load(np.random.default_rng(0))
    everything = digits.Data(*map(np.concatenate, zip(training, test, strict=True)))
    columns, signs = digits.features(everything, (3, 8))
    p = 1.0 / (1.0 + np.exp(-columns @ weights))
    np.testing.assert_allclose(columns.T @ (p - (signs > 0)), 0.0, atol=1e-8)
    hessian = (columns.T * (p * (1.0 - p))) @ columns
    np.testing.assert_allclose(errors, np.sqrt(np.diag(np.linalg.inv(hessian))), rtol=1e-8)


def test_the_report_has_a_line_for_each_weight(digits, capsys):
    digits.report(np.array([1.0, -2.0, 3.0, 4.0, 5.0]), np.full(5, 0.5), 6, (3, 8))
    lines = capsys.readouterr().out.splitlines()
    found = {line.split()[0]: line.split()[1:] for line in lines if re.match(r" +\w+ +-?\d", line)}
    assert list(found) == list(digits.FEATURES)
    assert found["ink"] == ["-2.000", "0.500", "-4.00"]
