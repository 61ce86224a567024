"""Settings: validation, and environment variables."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from functrans import config

ROOT = Path(__file__).parents[1]
SWITCHES = sorted(config._SWITCHES)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("threads", 0, "a positive integer"),
        ("threads", -1, "a positive integer"),
        ("threads", 2.0, "a positive integer"),
        ("threads", True, "a positive integer"),
        ("threads", "2", "a positive integer"),
        ("parallel_threshold", -1, "an integer, 0 or more"),
        ("backend", "cuda", "'native' or 'numba'"),
        ("backend", None, "'native' or 'numba'"),
        ("matmul_precision", "fast", "'float32' or 'tf32'"),
        ("matmul_precision", None, "'float32' or 'tf32'"),
        ("cache", 1, "True or False"),
        ("deterministic", 1, "True or False"),
        ("cache", None, "True or False"),
        ("cache_dir", 3, "a path, or None"),
        ("cache_dir", "", "a path, or None"),
        ("cache_bytes", 1e9, "an integer, 0 or more"),
        ("cpu", "x86-64", "None, or one of x86-64-v2, x86-64-v3, x86-64-v4"),
        ("cpu", 3, "None, or one of x86-64-v2, x86-64-v3, x86-64-v4"),
    ],
)
def test_what_makes_no_sense_is_refused(name, value, wanted):
    before = getattr(config, name)
    words = re.escape(f"functrans.config.{name} must be {wanted}, not {value!r}")
    with pytest.raises(ValueError, match=f"^{words}$"):
        setattr(config, name, value)
    assert getattr(config, name) is before


def test_a_switch_that_is_none_is_refused():
    with pytest.raises(AttributeError, match="has no switch 'thread'; it has threads, parallel_"):
        config.thread = 2
    assert not hasattr(config, "thread")


def test_a_path_may_be_text(monkeypatch):
    monkeypatch.setattr(config, "cache_dir", "somewhere/else")
    assert config.cache_dir == Path("somewhere/else")
    monkeypatch.setattr(config, "cache_dir", None)
    assert config.cache_dir is None


def test_who_asked_is_told_of_changes(monkeypatch):
    monkeypatch.setattr(config, "_watchers", {})
    seen = []
    config.on_change("threads", seen.append)
    monkeypatch.setattr(config, "threads", 7)
    with pytest.raises(ValueError, match="positive"):
        config.threads = 0
    assert seen == [7]


def value_in(name, **environment):
    """A switch in a process with these environment variables only, and what it warned of."""
    unset = ("FUNCTRANS", "NUMBA", "OMP", "XDG", "HOME", "LOCALAPPDATA")
    rest = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
    done = subprocess.run(
        [sys.executable, "-c", f"from functrans import config; print(config.{name})"],
        env={**rest, "HOME": "/home/me", **environment},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("name", "environment", "value"),
    [
        ("threads", {"FUNCTRANS_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "5"}, "3"),
        ("threads", {"NUMBA_NUM_THREADS": "5", "OMP_NUM_THREADS": "6"}, "5"),
        ("threads", {"OMP_NUM_THREADS": "6,2"}, "6"),
        ("backend", {}, "native"),
        ("backend", {"FUNCTRANS_BACKEND": "Numba"}, "numba"),
        ("matmul_precision", {}, "float32"),
        ("matmul_precision", {"FUNCTRANS_MATMUL_PRECISION": "TF32"}, "tf32"),
        ("cache", {}, "True"),
        ("cache", {"FUNCTRANS_CACHE": "0"}, "False"),
        ("cache", {"FUNCTRANS_CACHE": "Off"}, "False"),
        ("cache", {"FUNCTRANS_CACHE": "1"}, "True"),
        ("cache_bytes", {"FUNCTRANS_CACHE_BYTES": "1000"}, "1000"),
        ("deterministic", {}, "False"),
        ("deterministic", {"FUNCTRANS_DETERMINISTIC": "1"}, "True"),
        ("cpu", {}, "None"),
        ("cpu", {"FUNCTRANS_CPU": "x86-64-v3"}, "x86-64-v3"),
    ],
)
def test_the_environment_sets_the_first_value(name, environment, value):
    assert value_in(name, **environment) == (value, "")


@pytest.mark.few(2)
@pytest.mark.skipif(sys.platform != "linux", reason="folders differ between systems")
@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"FUNCTRANS_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/c"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/functrans"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/functrans"),
        ({}, "/home/me/.cache/functrans"),
    ],
)
def test_where_the_cache_is(environment, folder):
    assert value_in("cache_dir", **environment) == (folder, "")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        ("FUNCTRANS_NUM_THREADS", "many", "a positive integer"),
        ("FUNCTRANS_BACKEND", "cuda", "'native' or 'numba'"),
        ("FUNCTRANS_MATMUL_PRECISION", "bf16", "'float32' or 'tf32'"),
        ("FUNCTRANS_CACHE", "perhaps", "0 or 1"),
        ("FUNCTRANS_CPU", "old", "one of x86-64-v2, x86-64-v3, x86-64-v4"),
        ("FUNCTRANS_CACHE_BYTES", "1G", "a number of bytes"),
    ],
)
def test_what_cannot_be_read_is_ignored_with_a_warning(variable, value, wanted):
    _, warning = value_in("cache", **{variable: value})
    assert f"variable {variable} is {value!r}, which is not {wanted}: ignored" in warning


def test_every_switch_and_variable_is_on_the_page():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"`config\.(\w+)`", page))) == SWITCHES
    source = Path(config.__file__).read_text(encoding="utf-8")
    assert set(re.findall(r"FUNCTRANS_\w+", source)) == set(re.findall(r"FUNCTRANS_\w+", page))
