"""Draw the pictures of the programs in two folders, and write the pages that show them.

Run it with ``python -m examples.draw``.
"""

import importlib
import io
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from functrans import grad

HERE = Path(__file__).parent

TITLES = {
    "ac_circuit": "A circuit of alternating current",
    "hamiltonian_monte_carlo": "Hamiltonian Monte Carlo",
    "heat_sparse": "Heat, by sparse matrices",
    "hidden_markov": "A hidden Markov model",
    "kalman_filter": "A Kalman filter",
    "ode_fit": "A differential equation fitted",
    "option_greeks": "Option Greeks",
    "pca": "Principal components",
    "physics_informed": "A physics-informed network",
    "private_training": "Differentially private training",
    "spectral_pde": "A partial differential equation by spectra",
}


class Collection(NamedTuple):
    """The programs in a folder, and the header of their page."""

    folder: str
    header: str

    @property
    def names(self):
        return sorted(path.stem for path in (HERE / self.folder).glob("*.py"))

    def program(self, name):
        return importlib.import_module(f"examples.{self.folder}.{name}")

    def picture(self, name):
        """The picture of a program as PNG."""
        module = self.program(name)
        figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
        if hasattr(module, "objective") and hasattr(module, "ARGUMENT"):
            module.draw(axes, grad(module.objective)(module.ARGUMENT))
        else:
            module.draw(axes)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=80)
        plt.close(figure)
        return stream.getvalue()

    def page(self):
        """The index, with a sentence and a picture for each."""
        parts = [self.header]
        for name in self.names:
            title = TITLES.get(name, name.replace("_", " ").capitalize())
            sentence = self.program(name).__doc__.strip()
            parts.append(f"## [{title}]({name}.py)\n\n{sentence}\n\n![{title}]({name}.png)\n")
        return "\n".join(parts)


UNMODIFIED = Collection(
    "unmodified",
    """# Programs as they are

These programs use NumPy and SciPy, and do not mention functrans. Each has a function `objective`,
which `functrans.grad` differentiates without a change to the program. The tests compare the
gradients with finite differences. `python -m examples.draw` draws the pictures.
""",
)

GALLERY = Collection(
    "gallery",
    """# Gallery

These programs of some fifty lines use functrans. The picture of each shows the result of its
`solution()`, which the tests compare with known values. `python -m examples.draw` draws the
pictures. There are also [programs that do not mention functrans](../unmodified/README.md).
""",
)


def main():
    for collection in (UNMODIFIED, GALLERY):
        folder = HERE / collection.folder
        for name in collection.names:
            (folder / f"{name}.png").write_bytes(collection.picture(name))
        (folder / "README.md").write_text(collection.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
