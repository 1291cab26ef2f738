"""Paths and addresses: may a result be written at a path, and how? Where is a table that is read?

Every file that confmax writes is checked and written here.

* A regular file is written beside its place and renamed, so readers see the old file or the new one, whole.
* A symbolic link stays a link: the file that it leads to is written.
* A device or a pipe (``/dev/null``, ``/dev/stdout``, a FIFO) takes the bytes in place and is never replaced.
* Anything else that exists is refused.

`check_place` asks before the work begins; `write_whole` asks again and writes. What is too large to be held is written
to the file of `whole_file`, and several files to the folder of `whole_folder`.

Tables are also read from an `Address`, such as ``s3://bucket/scores.parquet``. It may hold a password or a signature:
what is printed or written shows it by `shown` or `shown_in`.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

__all__ = [
    "Address",
    "check_folder",
    "check_place",
    "is_stdout",
    "is_stream",
    "path_of",
    "remove_parts",
    "replaces",
    "same_place",
    "shown",
    "shown_in",
    "whole_file",
    "whole_folder",
    "write_whole",
]

PART = "part-{:05d}.parquet"  # the files of a folder that is written as a whole
_MARK = ".confmax-"  # how the names of files that are not finished begin
_PART = re.compile(r"part-\d{5,}\.parquet")
_parts: set[Path] = set()  # files and folders that are being written beside their places
_old: dict[Path, Path] = {}  # folders that are being replaced, by where they wait
STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")  # names of streams by their descriptors
STDOUT = Path("/dev/stdout")  # also where no such file is, as on Windows


@dataclass(frozen=True)
class _Place:
    """Where bytes go: ``path`` after its last link, ``old`` the status of the regular file that is replaced.

    What is written ``in_place`` is a device, a pipe, or the ``stream`` of this process that has this descriptor.
    """

    path: Path
    old: os.stat_result | None = None
    in_place: bool = False
    stream: int | None = None


def check_place(path: Path) -> None:
    """Refuse a ``path`` that cannot be written to, by a ValueError, before any work is done.

    That is a directory, a socket or a block device, a path by links in a circle, a file or a folder that is
    write-protected, or one in a folder that does not exist.
    """
    _resolved(path)


def replaces(path: Path) -> bool:
    """Return whether writing to ``path`` replaces a file: devices and pipes are written to in place."""
    return _resolved(path).old is not None


def same_place(one: Path, other: Path) -> bool:
    """Return whether paths ``one`` and ``other`` lead to one file, links followed; neither needs to exist."""
    with suppress(OSError):
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def is_stream(path: Path) -> bool:
    """Return whether ``path`` is a device, a pipe, or another name of a stream of this process such as ``/dev/fd/3``.

    Nothing of its name says what format such a place takes.
    """
    if _is_stdout_without_file(path):
        return True
    with suppress(OSError):
        mode = path.stat().st_mode
        # a stream that was redirected to a file looks like a file, so its name counts as well
        named = str(path.absolute()).startswith(STREAMS)
        return named or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


def is_stdout(path: Path) -> bool:
    """Return whether ``path`` is another name of this process's stdout, such as ``/dev/stdout``."""
    if _is_stdout_without_file(path):
        return True
    with suppress(OSError):
        return str(path.absolute()).startswith(STREAMS) and _own_stream(path, path.stat()) == 1
    return False


def _is_stdout_without_file(path: Path) -> bool:
    return path == STDOUT and not path.exists()


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, as `whole_file` does."""
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` to be written: a regular file whole or not at all, a device or a pipe in place.

    A file that is replaced keeps its mode, and its owner where the system allows that; a new file gets the mode that
    the umask says. Of a file with several hard links only this name gets the new content: the others keep the old one.
    Opening a FIFO waits for its reader, as a shell does. An OSError of the writing names the path, and a regular file
    is then what it was before, as it is after any other error.
    """
    place = _resolved(path)
    with _naming(path), (_in_place if place.in_place else _beside)(place) as file:
        yield file


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # a failed write does not say which file it belongs to, a failed rename names the temporary one; an error of
        # another file is not of this writing
        if error.filename is not None and not Path(os.fsdecode(error.filename)).name.startswith(_MARK):
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def remove_parts() -> None:
    """Remove what has been begun to be written: for a process that ends in the middle of it."""
    for part in tuple(_parts):
        with suppress(OSError):
            _remove(part)
    for waiting, path in tuple(_old.items()):
        with suppress(OSError):
            _remove(waiting) if path.exists() else waiting.rename(path)


def _remove(part: Path) -> None:
    """Remove a file or a folder that may be there."""
    if part.is_dir():
        shutil.rmtree(part)
    else:
        part.unlink(missing_ok=True)


# --- folders ---------------------------------------------------------------------------------------------------------


def check_folder(path: Path) -> None:
    """Refuse a ``path`` that no folder of part files can be written to, by a ValueError.

    A folder that is there is replaced if it is empty or holds nothing but such files, as `PART` names them.
    """
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file, not a folder; choose another name")
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    _check_folder(target, f" ({path} leads there)" if path.is_symlink() else "")
    others = [] if not path.exists() else [name for name in sorted(os.listdir(path)) if not _PART.fullmatch(name)]
    if others:
        raise ValueError(
            f"the folder {path} holds {others[0]}, which is no part file, so it is not replaced; name a new folder"
        )


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Return a new folder, in which files are written, and which then appears at ``path`` as a whole or not at all.

    Refusals as for `check_folder`, errors as for `whole_file`. A folder that was there stays until then.
    """
    check_folder(path)
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    beside = target.with_name(f"{_MARK}{secrets.token_hex(8)}.part")
    _parts.add(beside)
    try:
        with _naming(path):
            beside.mkdir()
            yield beside
            if target.exists():
                _exchange(beside, target)
            else:
                beside.rename(target)
    finally:
        with suppress(OSError):
            _remove(beside)
        _parts.discard(beside)


def _exchange(new: Path, path: Path) -> None:
    """Put a ``new`` folder in the place of the one at ``path``, which comes back if that fails."""
    os.chmod(new, stat.S_IMODE(path.stat().st_mode))
    waiting = new.with_suffix(".old")
    _old[waiting] = path
    try:
        path.rename(waiting)
        new.rename(path)
    finally:
        with suppress(OSError):
            _remove(waiting) if path.exists() else waiting.rename(path)
        _old.pop(waiting, None)


# --- files -----------------------------------------------------------------------------------------------------------


def _resolved(path: Path) -> _Place:
    """Return where the bytes for ``path`` go; errors as for `check_place`."""
    if _is_stdout_without_file(path):
        return _Place(path, in_place=True, stream=1)
    try:
        old = path.stat()
    except FileNotFoundError:
        old = None
    except OSError as error:
        raise ValueError(_unreachable(path, error)) from None
    if old is not None:
        stream = _own_stream(path, old)
        if stream is not None:
            return _Place(path, in_place=True, stream=stream)
        if stat.S_ISDIR(old.st_mode):
            raise ValueError(f"{path} is a directory; name the file to write in it")
        if stat.S_ISCHR(old.st_mode) or stat.S_ISFIFO(old.st_mode):
            _check_permission(path)
            # not what links lead to: behind /dev/fd/3 there is no path that can be opened
            return _Place(path, in_place=True)
        if not stat.S_ISREG(old.st_mode):
            what = "a socket" if stat.S_ISSOCK(old.st_mode) else "a block device"
            raise ValueError(f"{path} is {what}, not a file; choose another name")
    # a path that is no link is named as the user named it
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    _check_folder(target, f" ({path} leads there)" if target != path else "")
    if old is not None:
        _check_permission(path)
    return _Place(target, old)


def _unreachable(path: Path, error: OSError) -> str:
    """Return why a path cannot be reached, in one sentence."""
    if error.errno == errno.ELOOP:
        return f"{path} is reached by symbolic links in a circle; remove them or choose another name"
    file = next((parent for parent in path.parents if parent.exists() and not parent.is_dir()), None)
    if error.errno == errno.ENOTDIR and file is not None:
        return f"{path} cannot be written because {file} is a file, not a folder; choose another place"
    return f"{path} cannot be written ({error.strerror}); choose another place"


def _check_folder(target: Path, by_link: str) -> None:
    name = target.name
    folder = target.parent
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist, so {name} cannot be written{by_link}; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"the folder {folder} is not writable, so {name} cannot be written{by_link}; choose another")


def _check_permission(path: Path) -> None:
    # renaming would replace a protected file all the same
    if not os.access(path, os.W_OK):
        raise ValueError(f"{path} is write-protected; make it writable or choose another name")


def _own_stream(path: Path, old: os.stat_result) -> int | None:
    """Return the descriptor of this process's output that ``path`` stands for, if any.

    Where stdout was redirected to a file, ``/dev/stdout`` leads to that file. Replacing it would lose what is printed.
    A file that is named by its own path is a file like any other.
    """
    for stream in (1, 2) if str(path.absolute()).startswith(("/dev/", "/proc/")) else ():
        with suppress(OSError):  # a stream that is closed
            if os.path.samestat(os.fstat(stream), old):
                return stream
    return None


@contextmanager
def _beside(place: _Place) -> Iterator[IO[bytes]]:
    """Open a file beside its place, which is then renamed."""
    # not the file's own name with an ending: that can be longer than names may be
    beside = place.path.with_name(f"{_MARK}{secrets.token_hex(8)}.part")
    # the umask applies to a new file; nobody else reads what will replace a private one
    mode = 0o666 if place.old is None else 0o600
    _parts.add(beside)
    try:
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as part:
            yield part
        if place.old is not None:
            with suppress(OSError, AttributeError):  # not allowed, or no owners on this system
                os.chown(beside, place.old.st_uid, place.old.st_gid)
            os.chmod(beside, stat.S_IMODE(place.old.st_mode))
        os.replace(beside, place.path)
    # an interrupt must not leave a part of a file behind either
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    finally:
        _parts.discard(beside)


@contextmanager
def _in_place(place: _Place) -> Iterator[IO[bytes]]:
    """Open a device, a pipe, or the output of this process."""
    if place.stream is None:
        # a terminal that is written to must not become the one that controls this process
        handle = os.open(place.path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))
    else:
        # the same offset as that of what is printed
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        handle = os.dup(place.stream)
    with open(handle, "wb") as file:
        yield file


# --- addresses -------------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)  # pathlib leaves one slash of s3://
_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"<>`]*[^\s'\"<>`);,.]")  # without a sentence's marks behind it
_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")  # what stands before @ is a container

if TYPE_CHECKING:
    from pathlib import Path as _Path
else:
    _Path = type(Path())  # of this system: before Python 3.12, Path itself has no subclasses


class Address(_Path):
    """An address in the place of a path: as a text it is `shown`, and `os.fspath` gives it whole."""

    url: str | None = None

    @classmethod
    def of(cls, url: str) -> Address:
        """Return the address ``url``."""
        found = cls(shown(url))
        found.url = url
        return found

    def __str__(self) -> str:
        # its parent is made by pathlib, which knows no address
        return super().__str__() if self.url is None else shown(self.url)

    def __fspath__(self) -> str:
        return super().__fspath__() if self.url is None else self.url

    def __reduce__(self) -> Any:
        return super().__reduce__() if self.url is None else (Address.of, (self.url,))


def path_of(name: str | os.PathLike[str]) -> Path:
    """Return a name as a path of this machine, or as the `Address` that it is."""
    text = os.fspath(name)
    found = _ADDRESS.fullmatch(text)
    if found is None or os.path.exists(text):
        return Path(text)
    if found[1].lower() == "file":
        return Path(unquote(found[2]) if os.name == "nt" else f"/{unquote(found[2])}")
    return Address.of(f"{found[1]}://{found[2]}")


def shown(name: str) -> str:
    """Return a name, of an address without user, password and query."""
    found = _ADDRESS.fullmatch(name)
    if found is None:
        return name
    scheme, rest = found.groups()
    place, slash, path = rest.partition("?")[0].partition("/")
    user, _, host = place.rpartition("@")
    port = host.rpartition(":")[2]
    if not user and ":" in host and not port.isdigit() and "@" in path:
        # a password with a slash that should have been written %2F
        host, slash, path = path.rpartition("@")[2].partition("/")
    container = user.partition(":")[0] if scheme.lower() in _CONTAINERS else ""
    return f"{scheme}://{container + '@' if container else ''}{host}{slash}{path}"


def shown_in(text: str) -> str:
    """Return a text, such as the message of another library, with the addresses in it as they are `shown`."""
    return _IN_TEXT.sub(lambda found: shown(found[0]), text)
