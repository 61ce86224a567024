"""A disk cache: a private folder of files by key, shared by processes.

After any failure (no such folder, no permission, a full disk, a damaged file) nothing is found or
stored, without an error. Contents that are found were stored under the same key by the same user.
Since they are machine code,

- the folder must belong to the user, and nobody else may write to it;
- so must each file, which starts with a checksum of its key and its contents.

Files are written under a temporary name and then renamed, so that no process reads a partial file.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from functrans.records import NamedTuple

_MAGIC = b"functrans-code1\n"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_SUFFIX = ".code"
_UNFINISHED = ".part"
_BINARY = getattr(os, "O_BINARY", 0)

_BLOCK = 4096
"""The block size of most disks, in bytes."""

_FRESH = 600
"""Seconds during which a file's time of use is not updated again, to avoid writes."""

_ABANDONED = 3600
"""Seconds after which an unfinished file is considered abandoned."""


class Usage(NamedTuple):
    """The contents of a folder: number of files and bytes."""

    files: int
    bytes: int


class _File(NamedTuple):
    used: float
    bytes: int
    path: Path


class Store:
    """A folder of files by key."""

    def __init__(
        self,
        folder: Path,  # it is created when the first file is stored
        # the approximate bytes of disk to use: a process may write a sixteenth more before the
        # least recently used files are removed
        limit: int,
    ) -> None:
        self.folder = folder
        self.limit = limit

    def get(self, key: str) -> bytes | None:
        """The content under a key; None if there is none, or it cannot be trusted."""
        try:
            if _refusal(os.stat(self.folder)):
                return None
            with open(self._path(key), "rb") as file:
                about = os.fstat(file.fileno())
                content = file.read()
        except OSError:
            return None
        contents = content[_HEADER:]
        if _refusal(about) or content[:_HEADER] != _header(key, contents):
            return None
        if time.time() - about.st_mtime > _FRESH:
            with suppress(OSError):
                os.utime(self._path(key))
        return contents

    def put(self, key: str, contents: bytes) -> None:
        """Store content under a key, replacing any earlier content."""
        size = _on_disk(_HEADER + len(contents))
        if size > self.limit:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _refusal(os.stat(self.folder)):
                return
            self._write(key, contents)
        except OSError:
            return
        # On average once for each sixteenth of the limit; the key serves as the random number.
        if int(key[:8], 16) * self.limit < (size * 16) << 32:
            self.trim()

    def trim(self) -> None:
        """Remove the least recently used files if the limit is exceeded."""
        files = sorted(self._files())
        excess = sum(file.bytes for file in files) - self.limit
        if excess <= 0:
            return
        excess += self.limit // 4  # below the limit, so that the next time is not soon
        for file in files:
            if excess <= 0:
                break
            excess -= file.bytes
            with suppress(OSError):
                file.path.unlink()

    def clear(self) -> Usage:
        """Remove all files; return their usage."""
        files, total = 0, 0
        for file in list(self._files(abandoned=0)):
            with suppress(OSError):
                file.path.unlink()
                files, total = files + 1, total + file.bytes
        return Usage(files, total)

    def usage(self) -> Usage:
        """The current usage."""
        sizes = [file.bytes for file in self._files()]
        return Usage(len(sizes), sum(sizes))

    def refusal(self) -> str | None:
        """The reason why the folder cannot be used, or is not safe; None if it is."""
        try:
            about = os.stat(self.folder)
        except FileNotFoundError:
            return self._refusal_to_make()
        except OSError as error:
            return error.strerror
        if not stat.S_ISDIR(about.st_mode):
            return "it is no folder"
        return _refusal(about)

    def _refusal_to_make(self) -> str | None:
        """The reason why a missing folder cannot be created; None if it can."""
        try:
            self.folder.mkdir(mode=0o700, parents=True)
            self.folder.rmdir()
        except OSError as error:
            return f"it cannot be made ({error.strerror})"
        return None

    def _path(self, key: str) -> Path:
        return self.folder / (key + _SUFFIX)

    def _write(self, key: str, contents: bytes) -> None:
        # not tempfile, whose import takes 5 ms
        name = self.folder / f"{key}.{os.getpid()}.{os.urandom(8).hex()}{_UNFINISHED}"
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(_header(key, contents))
                file.write(contents)
            os.replace(name, self._path(key))
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _files(self, abandoned: float = _ABANDONED) -> Iterator[_File]:
        """The cache's files, and abandoned unfinished ones."""
        try:
            entries = list(os.scandir(self.folder))
        except OSError:
            return
        for entry in entries:
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                unfinished = entry.name.endswith(_UNFINISHED)
                if unfinished and time.time() - about.st_mtime < abandoned:
                    continue
                if unfinished or entry.name.endswith(_SUFFIX):
                    yield _File(about.st_mtime, _on_disk(about.st_size), Path(entry.path))


def _refusal(about: os.stat_result) -> str | None:
    """The reason why another user may have written to a folder or file; None if impossible."""
    if not hasattr(os, "geteuid"):
        return None  # on Windows, folders in a user's profile belong to the user
    if about.st_uid != os.geteuid():
        return "it belongs to another user"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users may write to it"
    return None


def _header(key: str, contents: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key.encode() + contents).digest()


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
