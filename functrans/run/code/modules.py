"""Linking LLVM modules as text: functions written in LLVM IR are in ``.ll`` files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# the patterns start with literal text, which is searched quickly
_DEFINED = re.compile(r"\ndefine [^@]*@([^(]*)")
_DECLARED = re.compile(r"\ndeclare [^@]*@([^(]*).*")


# the loader of the package's own modules, wherever they were imported from
_loader: Any = globals()["__loader__"]


def joined(*files: Path) -> str:
    """One module of several files, each of which is a complete module.

    A declaration is dropped if another file has the definition, even an internal one; duplicate
    declarations are merged. No two files may define the same function.
    """
    text = "".join("\n" + _text(file) for file in files)
    known = set(_DEFINED.findall(text))

    def once(found: re.Match[str]) -> str:
        if found[1] in known:
            return ""
        known.add(found[1])
        return found[0]

    return _DECLARED.sub(once, text)


def _text(file: Path) -> str:
    """The text of a file of the package, which may be in an archive."""
    text: str = _loader.get_data(str(file)).decode("utf-8")
    return text.replace("\r\n", "\n")
