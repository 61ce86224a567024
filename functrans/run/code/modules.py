"""Linking LLVM modules as text: functions written in LLVM's language lie in ``.ll`` files."""

from __future__ import annotations

import re
from pathlib import Path

# (the patterns begin with text, which is looked for fast)
_DEFINED = re.compile(r"\ndefine [^@]*@([^(]*)")
_DECLARED = re.compile(r"\ndeclare [^@]*@([^(]*).*")


def joined(*files: Path) -> str:
    """One module of several files, each of which is one by itself.

    What one file declares and another defines loses its declaration, also if the definition is
    internal; no two files may define or declare the same otherwise.
    """
    text = "".join("\n" + file.read_text(encoding="utf-8") for file in files)
    defined = set(_DEFINED.findall(text))
    return _DECLARED.sub(lambda found: "" if found[1] in defined else found[0], text)
