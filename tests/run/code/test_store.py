"""The disk store of compiled code returns only intact entries, and its failures are silent."""

import os
import stat
import time

import pytest

from functrans.run.code.store import Store, Usage

KEY = "ab" * 32
OTHER = "cd" * 32
LIMIT = 1 << 20

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="file modes are POSIX")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "below" / "cache", LIMIT)


def the_file(store):
    [path] = store.folder.iterdir()
    return path


def test_what_was_put_in_comes_out(store):
    assert store.get(KEY) is None
    store.put(KEY, b"machine code")
    assert store.get(KEY) == b"machine code"
    assert store.get(OTHER) is None
    store.put(KEY, b"other code")
    assert store.get(KEY) == b"other code"
    assert store.usage() == Usage(1, 4096)


def test_nothing_at_all_can_be_kept(store):
    store.put(KEY, b"")
    assert store.get(KEY) == b""


@posix
def test_the_folder_and_its_files_are_private(store):
    store.put(KEY, b"code")
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_file(store).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: content[:-1] + b"x",
        lambda content: b"x" + content[1:],
        lambda content: content[:30] + b"\0" * 8 + content[38:],
        lambda content: b"#!/bin/sh\n",
    ],
    ids=["empty", "header", "short", "long", "contents", "magic", "checksum", "foreign"],
)
def test_a_damaged_file_is_not_there_and_is_replaced(store, damage):
    store.put(KEY, b"machine code")
    path = the_file(store)
    path.write_bytes(damage(path.read_bytes()))
    assert store.get(KEY) is None
    store.put(KEY, b"machine code")
    assert store.get(KEY) == b"machine code"


def test_a_file_under_another_files_name_is_not_trusted(store):
    store.put(KEY, b"machine code")
    path = the_file(store)
    path.rename(path.with_name(path.name.replace(KEY, OTHER)))
    assert store.get(OTHER) is None


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(store, mode):
    store.put(KEY, b"code")
    store.folder.chmod(mode)
    assert store.get(KEY) is None
    store.put(OTHER, b"code")
    assert len(list(store.folder.iterdir())) == 1
    assert store.refusal() == "other users may write to it"


@posix
def test_a_file_that_others_may_write_to_is_not_used(store):
    store.put(KEY, b"code")
    the_file(store).chmod(0o666)
    assert store.get(KEY) is None


@posix
def test_a_folder_of_somebody_else_is_not_used(store, monkeypatch):
    store.put(KEY, b"code")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert store.get(KEY) is None
    assert store.refusal() == "it belongs to another user"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "cache", LIMIT)
    store.put(KEY, b"code")
    assert store.get(KEY) is None
    assert store.usage() == store.clear() == Usage(0, 0)
    assert store.refusal() is not None


def test_a_full_disk_is_no_error_and_leaves_nothing_behind(store, monkeypatch):
    store.put(OTHER, b"code")

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    store.put(KEY, b"code")
    assert store.get(KEY) is None
    assert len(list(store.folder.iterdir())) == 1


def test_a_missing_right_to_write_leaves_reading(store, monkeypatch):
    store.put(KEY, b"code")
    old = time.time() - 10_000
    os.utime(the_file(store), (old, old))

    def read_only(*arguments):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", read_only)
    assert store.get(KEY) == b"code"


def fill(store, count, size):
    """Files of which the first was used longest ago."""
    keys = [f"{i:064x}" for i in range(count)]
    for i, key in enumerate(keys):
        store.put(key, bytes(size))
        used = time.time() - 1000 * (count - i)
        os.utime(store.folder / f"{key}.code", (used, used))
    return keys


def test_what_was_not_used_for_longest_is_removed(store):
    unlimited = Store(store.folder, 1 << 40)
    keys = fill(unlimited, 20, 60_000)
    assert unlimited.get(keys[0]) is not None  # now it is the one used last
    store.trim()
    kept = [key for key in keys if store.get(key) is not None]
    assert kept == [keys[0], *keys[-len(kept) + 1 :]]
    assert LIMIT / 2 < store.usage().bytes <= LIMIT


def test_writing_keeps_to_the_limit(tmp_path):
    limit = 64 * 4096
    store = Store(tmp_path, limit)
    for i in range(300):
        store.put(f"{i * 0x9E3779B97F4A7C15 % 2**64:016x}" * 4, bytes(1000))
    assert limit / 2 < store.usage().bytes <= limit * 1.25


def test_what_is_larger_than_the_limit_is_not_kept(tmp_path):
    store = Store(tmp_path / "cache", 4096)
    store.put(KEY, bytes(5000))
    assert store.usage() == Usage(0, 0)


def test_clearing_removes_our_files_only(store):
    fill(store, 3, 10)
    (store.folder / "unfinished.part").write_bytes(b"x")
    (store.folder / "notes.txt").write_text("somebody's")
    assert store.clear() == Usage(4, 4 * 4096)
    assert [path.name for path in store.folder.iterdir()] == ["notes.txt"]


def test_unfinished_files_go_once_nobody_can_be_writing_them(store):
    fill(store, 1, 10)
    for name, age in (("new.part", 0), ("old.part", 10_000)):
        path = store.folder / name
        path.write_bytes(bytes(LIMIT))
        os.utime(path, (time.time() - age,) * 2)
    store.trim()
    assert sorted(p.name for p in store.folder.glob("*.part")) == ["new.part"]
