"""Linking LLVM modules as text: functions written in LLVM's language lie in ``.ll`` files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# (the patterns begin with text, which is looked for fast)
_DEFINED = re.compile(r"\ndefine [^@]*@([^(]*)")
_DECLARED = re.compile(r"\ndeclare [^@]*@([^(]*).*")


# of the package's own modules, wherever they were imported from
_loader: Any = globals()["__loader__"]


def joined(*files: Path) -> str:
    """One module of several files, each of which is one by itself.

    What one file declares and another defines loses its declaration, also if the definition is
    internal; what several declare is declared once. No two files may define the same.
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
    """A file of the package, which may have been imported from an archive."""
    text: str = _loader.get_data(str(file)).decode("utf-8")
    return text.replace("\r\n", "\n")
