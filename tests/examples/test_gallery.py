"""The gallery: the result of each program agrees with values from the literature."""

import numpy as np
import pytest

from examples.draw import GALLERY


def solution(name):
    return GALLERY.program(name).solution()


@pytest.mark.dear
def test_bundle_adjustment():
    points, found, (start, end) = solution("bundle_adjustment")
    assert start > 0.03
    assert end < 1e-3  # the noise in the pictures
    np.testing.assert_allclose(found, points, atol=0.05)


@pytest.mark.dear
def test_hamiltonian_monte_carlo():
    draws, rate = solution("hamiltonian_monte_carlo")
    assert 0.9 < rate < 1.0
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(draws.var(axis=0), [1.0, 2.25], rtol=0.1)


@pytest.mark.dear
def test_inverse_kinematics():
    program = GALLERY.program("inverse_kinematics")
    targets, angles, off = program.solution()
    assert off.max() < 1e-9
    for target, turns in zip(targets, np.cumsum(angles, axis=1), strict=True):
        hand = [np.sum(program.LENGTHS * np.cos(turns)), np.sum(program.LENGTHS * np.sin(turns))]
        np.testing.assert_allclose(hand, target, atol=1e-9)


@pytest.mark.dear
def test_lens_design():
    shapes, (start, end) = solution("lens_design")
    assert start > 0.5
    assert end < 1e-5
    # the maker of lenses' formula, with the curvatures at the vertices
    front, back, glass, thick = 2 * shapes[0], 2 * shapes[2], 1.5, 1.0
    power = (glass - 1) * (front - back + (glass - 1) * thick * front * back / glass)
    from_the_back = (1 - (glass - 1) * thick * front / glass) / power
    np.testing.assert_allclose(from_the_back, 10.0, rtol=1e-3)


@pytest.mark.dear
def test_meta_learning():
    _, (before, after) = solution("meta_learning")
    assert before > 1.0
    assert after < 0.3


def test_optimal_control():
    angle, speed, torque = solution("optimal_control")
    assert np.all(np.abs(np.abs(angle[-10:]) - np.pi) < 0.15)
    assert np.all(np.abs(speed[-10:]) < 0.3)
    assert np.all(np.abs(torque) <= 3.0)
    state = 0.0, 0.0  # the same by Python
    for t in torque:
        speed_now = state[1] + 0.04 * (t - 9.81 * np.sin(state[0]) - 0.1 * state[1])
        state = state[0] + 0.04 * speed_now, speed_now
    np.testing.assert_allclose(state, (angle[-1], speed[-1]), rtol=1e-9, atol=1e-9)


@pytest.mark.dear
def test_option_greeks():
    exact, by_paths = solution("option_greeks")
    # price, delta, vega and rho by mpmath
    known = [14.51916124972059, 0.6700896236699829, 38.021474370012555, 55.84024923562761]
    np.testing.assert_allclose(by_paths, known, rtol=1e-2)
    np.testing.assert_allclose(exact, known, rtol=1e-12)


@pytest.mark.dear
def test_physics_informed():
    program = GALLERY.program("physics_informed")
    x, u, losses = program.solution()
    assert losses[-1] < 1e-3 * losses[0]
    np.testing.assert_allclose(u, program.exact(x), atol=1e-3)


def test_private_training():
    _, _, paths, (private, plain) = solution("private_training")
    assert private[-1] > 0.85
    assert plain[-1] > 0.85
    assert not np.allclose(paths[0][-1], paths[1][-1])


@pytest.mark.dear
def test_sparsity_pattern():
    program = GALLERY.program("sparsity_pattern")
    pattern, path = program.solution()
    # each concentration depends on its own, on four around it, and on the other substance's
    np.testing.assert_array_equal(np.diff(pattern.indptr), 6)
    assert path.success
    dense = program.solve_ivp(program.reaction, (0.0, 5.0), path.y[:, 0], method="BDF", rtol=1e-6)
    np.testing.assert_allclose(path.y[:, -1], dense.y[:, -1], atol=1e-4)


@pytest.mark.dear
def test_tomography():
    image, measured, found = solution("tomography")
    assert measured.shape == (18, 32)
    assert np.linalg.norm(found - image) < 0.1 * np.linalg.norm(image)


@pytest.mark.parametrize("name", GALLERY.names)
def test_each_has_a_test(name):
    assert f"test_{name}" in globals()
