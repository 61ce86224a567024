"""Hooks of MkDocs: pages that are not written by hand, and links out of the folder of pages.

What lies beside `docs/` (examples with their pictures, the list of changes) becomes part of the
site, and the reference is made of the library's docstrings.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

BESIDE = (
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.png")),
    *sorted((ROOT / "examples").rglob("*.md")),
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
)

REFERENCE = {
    "functrans": "Transforms",
    "functrans.debug": "Debugging",
    "functrans.train": "Training",
    "functrans.lax": "Control flow and more",
    "functrans.testing": "Testing",
    "functrans.tree": "Pytrees",
}


def on_files(files: Files, config: Any) -> Files:
    for path in BESIDE:
        # a README would be the front page of its folder
        place = path.relative_to(ROOT).as_posix().replace("README.md", "programs.md")
        files.append(File.generated(config, place, abs_src_path=str(path)))
    for module, title in REFERENCE.items():
        place = f"reference/{module}.md"
        files.append(File.generated(config, place, content=_reference(module, title)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they are in the repository, where pages lie in `docs/`, for the site."""
    markdown = re.sub(r"(unmodified|gallery)/README\.md", r"\1/programs.md", markdown)
    if page.file.src_uri.startswith(("examples/", "CHANGELOG", "CONTRIBUTING")):
        up = "../" * page.file.src_uri.count("/")
        markdown = re.sub(r"\]\((?:\.\./)*docs/", f"]({up}", markdown)
        return re.sub(r"\]\((?:\.\./)*README\.md\)", f"]({up}index.md)", markdown)
    return re.sub(r"\]\(((?:\.\./)+)(examples/|CHANGELOG|CONTRIBUTING)", _inside, markdown)


def _inside(link: re.Match[str]) -> str:
    up = link[1].removesuffix("../")
    return f"]({up}{link[2]}"


def _reference(name: str, title: str) -> str:
    """A page of all public functions and classes of a module, from their docstrings."""
    module = import_module(name)
    lines = [f"# {title}: `{name}`", ""]
    for each in sorted(module.__all__, key=str.lower):
        value = getattr(module, each)
        home = getattr(value, "__module__", None)
        if not callable(value) or not home or not home.startswith("functrans"):
            continue
        inner = getattr(value, "__qualname__", each)
        lines += [
            f"## `{each}`",
            "",
            f"::: {home}.{inner}",
            "    options:",
            "      heading_level: 3",
            "",
        ]
    return "\n".join(lines)
