"""Finds missing packages, downloads their wheels, and installs them offline.

``python -m tests.gpu_hour wheels``: what is here, and what is missing or too old. With ``--fetch
FOLDER`` wheels are downloaded, and their sizes printed. With ``--install FOLDER --target PLACE``
those that are lacked here are installed from there, without a network and without their own
requirements; ``PYTHONPATH`` has to have PLACE. It needs only Python, pip and `packaging`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[2]

EXTRAS = ("cuda", "cuda-linalg")

NEEDED = {
    "cuda-bindings": ">=13,<14",  # brought by cuda-core
    "cuda-pathfinder": "",
    "llvmlite": "",
    "ml_dtypes": ">=0.5",
    "hypothesis": ">=6.100",
    "pytest": ">=8.2",
}
"""What the cases need beside our own requirements, or these bring with them."""

PARTS = {
    "nvrtc": "nvidia-cuda-nvrtc", "nvvm": "nvidia-nvvm", "cudart": "nvidia-cuda-runtime",
    "cublas": "nvidia-cublas", "cufft": "nvidia-cufft", "cusolver": "nvidia-cusolver",
}  # fmt: skip
"""The packages that the parts of `cuda-toolkit` are: it is nothing but their list."""

REPORTED = (
    "numpy", "scipy", "numba", "llvmlite", "optree", "opt_einsum", "ml_dtypes", "cuda-core",
    "cuda-bindings", "cuda-pathfinder", "numba-cuda", "nvmath-python", "nvidia-nvjitlink",
    *PARTS.values(), "torch", "cupy-cuda13x", "jax", "jaxlib", "triton",
)  # fmt: skip

PLATFORMS = tuple(
    f"manylinux{each}_x86_64"
    for each in "_2_39 _2_35 _2_34 _2_31 _2_28 _2_27 _2_24 _2_17 2014 2010 1".split()
)


def requirements() -> Iterator[Requirement]:
    """What programs on a GPU need: of `pyproject.toml`, and of this harness."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *(each for name in EXTRAS for each in extras[name])]:
        one = Requirement(text)
        if one.name == "cuda-toolkit":
            yield from (Requirement(f"{PARTS[part]}>=13,<14") for part in sorted(one.extras))
        elif one.name != "functrans":
            one.marker = None
            yield one
    yield from (Requirement(name + version) for name, version in NEEDED.items())


def state(one: Requirement) -> str:
    """The version that is here, and whether it will do: ``"1.2"``, ``"1.1, too old"``, ``"-"``."""
    try:
        version = metadata.version(one.name)
    except metadata.PackageNotFoundError:
        return "-"
    return version if one.specifier.contains(version, prereleases=True) else f"{version}, not so"


def lacked() -> list[Requirement]:
    """The requirements that are not met here; NVVM and its like may come with a toolkit instead."""
    toolkit = bool(tools()["nvcc"])
    return [
        one
        for one in requirements()
        if not state(one)[:1].isdigit() or "not so" in state(one)
        if not (toolkit and one.name in PARTS.values())
    ]


def tools() -> dict[str, str]:
    """Where the toolkit's programs are."""
    names = ("nvcc", "ncu", "compute-sanitizer", "nvdisasm", "nvidia-smi")
    return {name: shutil.which(name) or "" for name in names}


def toolkit() -> dict[str, str]:
    """Where the parts of a CUDA toolkit are looked for, if there is one and nobody has said it."""
    nvcc = shutil.which("nvcc")
    home = Path(nvcc).resolve().parents[1] if nvcc else Path()
    known = "CUDA_HOME" in os.environ or "CUDA_PATH" in os.environ
    return {} if known or not (home / "nvvm").is_dir() else {"CUDA_HOME": str(home)}


def fetch(folder: Path, python: str, names: Sequence[str]) -> None:
    """Download wheels for Linux on x86-64, without their requirements, and print their sizes."""
    wanted = [one for one in requirements() if not names or one.name in names]
    platforms = [text for each in PLATFORMS for text in ("--platform", each)]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-q"),
            *("--python-version", python, "--implementation", "cp", *platforms, "-d", str(folder)),
            *(f"{one.name}{one.specifier}" for one in wanted),
        ],
        check=True,
    )
    wheels = sorted(folder.glob("*.whl"), key=lambda each: each.stat().st_size)
    for wheel in wheels:
        print(f"{wheel.stat().st_size / 1e6:7.1f} MB  {wheel.name}")
    print(f"{sum(wheel.stat().st_size for wheel in wheels) / 1e6:7.1f} MB")


def install(folder: Path, target: Path) -> None:
    """Install what is lacked here from a folder, if it is there."""
    missing = {canonicalize_name(one.name) for one in lacked()}
    wheels = [
        str(each) for each in folder.glob("*.whl") if parse_wheel_filename(each.name)[0] in missing
    ]
    if wheels:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        subprocess.run([*command, "--upgrade", "--target", str(target), *wheels], check=True)
    print(f"installed {len(wheels)} wheels in {target}")


def main(arguments: Sequence[str]) -> int:
    """Say what is lacked: 1 if something is."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu_hour wheels", description=__doc__)
    parser.add_argument("--fetch", type=Path, metavar="FOLDER")
    parser.add_argument("--python", default="3.12", help="of the machine with the GPU")
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("--target", type=Path, default=Path("site"), metavar="PLACE")
    parser.add_argument("names", nargs="*", help="packages to be fetched: all if none is given")
    asked = parser.parse_args(arguments)
    if asked.fetch is not None:
        fetch(asked.fetch, asked.python, asked.names)
        return 0
    if asked.install is not None:
        install(asked.install, asked.target)
        return 0
    for one in requirements():
        print(f"{one!s:40} {state(one)}")
    for name, path in tools().items():
        print(f"{name:40} {path or '-'}")
    missing = lacked()
    print("\nlacking: " + (", ".join(map(str, missing)) or "nothing"))
    return int(bool(missing))
