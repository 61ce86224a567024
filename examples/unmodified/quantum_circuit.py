"""A variational quantum circuit of three qubits: the energy of an Ising chain, and its gradient."""

import numpy as np

QUBITS = 3
Z = np.diag([1.0, -1.0])
X = np.array([[0.0, 1.0], [1.0, 0.0]])
CNOT = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], complex)


def on_qubit(gate, qubit):
    parts = [np.eye(2)] * qubit + [gate] + [np.eye(2)] * (QUBITS - qubit - 1)
    full = parts[0]
    for part in parts[1:]:
        full = np.kron(full, part)
    return full


def rotation(angle):
    return np.array([[np.cos(angle / 2), -1j * np.sin(angle / 2)],
                     [-1j * np.sin(angle / 2), np.cos(angle / 2)]])  # fmt: skip


def phase(angle):
    return np.diag(np.array([np.exp(-0.5j * angle), np.exp(0.5j * angle)]))


def state(angles):
    psi = np.zeros(2**QUBITS, complex)
    psi[0] = 1.0
    for layer in angles.reshape(-1, QUBITS, 2):
        for qubit in range(QUBITS):
            psi = on_qubit(rotation(layer[qubit, 0]), qubit) @ psi
            psi = on_qubit(phase(layer[qubit, 1]), qubit) @ psi
        psi = np.kron(CNOT, np.eye(2)) @ psi
        psi = np.kron(np.eye(2), CNOT) @ psi
    return psi


HAMILTONIAN = sum(-on_qubit(X, i) for i in range(QUBITS)) + sum(
    -on_qubit(Z, i) @ on_qubit(Z, i + 1) for i in range(QUBITS - 1)
)


def objective(angles):
    """The energy."""
    psi = state(angles)
    return np.vdot(psi, HAMILTONIAN @ psi).real


ARGUMENT = np.random.default_rng(1).uniform(-1, 1, 12)


def draw(axes, gradient):
    axes.bar(np.arange(8), np.abs(state(ARGUMENT)) ** 2, label="probabilities")
    axes.plot(np.arange(12), gradient / 4, "ko--", label="gradient / 4")
    axes.legend()
