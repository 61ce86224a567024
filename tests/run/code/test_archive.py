"""The library imported from a zip file."""

import os
import zipfile

import pytest

import functrans
from tests.run.processes import run

# how many primitives there are, and what its programs on disk are known by
CODE = """
import sys

sys.path.insert(0, {archive!r})
import functrans
from functrans.ir.primitive import registry
from functrans.run.code import fingerprint

print(functrans.__file__.startswith({archive!r}), len(registry))
print(fingerprint.of_programs().hexdigest())
"""


@pytest.mark.dear
def test_the_library_works_from_an_archive_and_notices_another(tmp_path):
    package = os.path.dirname(functrans.__file__)
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for folder, _, names in os.walk(package):
            for name in names:
                if not name.endswith(".pyc"):
                    path = os.path.join(folder, name)
                    file.write(path, os.path.relpath(path, os.path.dirname(package)))
    code = CODE.format(archive=str(archive))
    inside, primitives, before = run(code, tmp_path).split()
    usual = run(code.replace("library.zip", "none.zip"), tmp_path).split()
    assert (inside, primitives) == ("True", usual[1])
    with zipfile.ZipFile(archive, "a") as file:
        file.comment = b"another"
    assert run(code, tmp_path).split()[2] != before
