"""Where the files of a table lie: on this machine, or on a filesystem of pyarrow or of fsspec.

Names, patterns and folders become `Location`s, in sorted order. Folders are read with all folders below them, as
pyarrow does: what begins with ``_`` or ``.`` is left out, and folders ``key=value`` are columns.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from confmax.places import Address, path_of, shown, shown_in
from confmax.tables.partitioned.arrow import short

PARQUET = (".parquet", ".pq")
MISSING = "__HIVE_DEFAULT_PARTITION__"  # the value of a key that is missing, in the name of a folder
HASTE = 10  # seconds that the first request may take, where a filesystem would try for minutes
HEADER = 1 << 14  # bytes, more than NumPy reads of the header of an array
# what an error says, and what the reader can do
_REMEDIES = (
    (r"access.?denied|\b40[13]\b|forbidden|permission|credential|unauthori|signature|anonymous", "its credentials"),
    (r"libjvm|libhdfs", "that Java and Hadoop are installed"),
    (r"network|resolve|connect|time.?d? ?out|unreachable|too slow", "the host and the connection"),
    (r"no.?such.?bucket|not exist|not found|\b404\b", "the names of the bucket and of the file"),
)


@dataclass(frozen=True, eq=False)
class Location:
    """A file: its ``path`` on a filesystem of pyarrow, None for this machine, and its ``name`` in messages.

    ``keys`` are those of the folders ``key=value`` above it, and their values as they are written; None is missing.
    """

    path: str = field(repr=False)  # the user and the query of an address may be secrets
    name: Path
    filesystem: Any = field(default=None, repr=False)
    keys: Mapping[str, str | None] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.name)

    @property
    def format(self) -> str:
        """``.parquet``, ``.npy`` or what else its name ends in."""
        found = self.name.suffix.lower()
        return ".parquet" if found in PARQUET else found

    def stamp(self) -> tuple[Any, ...] | None:
        """Return what changes if the file does: its size, its time and perhaps more; None if it is not there."""
        if self.filesystem is None:
            found = os.stat(self.path) if os.path.isfile(self.path) else None
            return None if found is None else (found.st_size, found.st_mtime_ns)
        with reaching(self):
            return _remote_stamp(self.filesystem, self.path)

    def opened(self) -> Any:
        """Return the open file of another machine; errors are those of the filesystem."""
        return self.filesystem.open_input_file(self.path)


def _remote_stamp(filesystem: Any, path: str) -> tuple[Any, ...] | None:
    own = getattr(getattr(filesystem, "handler", None), "fs", None)
    if own is not None:
        # fsspec remembers what it has listed
        own.invalidate_cache(path)
        try:
            about = own.info(path)
        except FileNotFoundError:
            return None
        times = ("mtime", "LastModified", "last_modified", "updated", "created", "ETag", "etag", "generation")
        return (about["size"], *(str(about.get(name)) for name in times))
    if filesystem.type_name == "s3":
        # times of S3 are whole seconds, and these headers hold a mark of the content too
        try:
            about = filesystem.open_input_stream(path, compression=None).metadata()
        except FileNotFoundError:
            return None
        return tuple(about.get(name) for name in ("Content-Length", "Last-Modified", "ETag"))
    found = filesystem.get_file_info(path)
    return (found.size, found.mtime_ns) if found.is_file else None


@contextmanager
def reaching(name: Any) -> Iterator[None]:
    """Turn whatever a filesystem raises into a ValueError that names the address.

    What Arrow says of the content of a file, and ImportErrors, go on as they are.
    """
    from pyarrow import ArrowInvalid

    try:
        yield
    except (ImportError, ArrowInvalid):
        raise
    except Exception as error:  # each filesystem of fsspec raises the errors of its own client
        why = shown_in(short(error))
        words = next((words for sign, words in _REMEDIES if re.search(sign, str(error), re.IGNORECASE)), "the address")
        refused = ValueError(f"{name} cannot be read: {why}; check {words}")
        try:
            raise refused from None
        finally:
            # the error of the filesystem may show an address with its password
            refused.__context__ = None


# --- filesystems -----------------------------------------------------------------------------------------------------


def as_filesystem(given: Any) -> Any:
    """Return a filesystem of pyarrow or fsspec as one of pyarrow; a ValueError for anything else."""
    from pyarrow import fs

    if isinstance(given, fs.FileSystem):
        return given
    if any(kind.__module__.partition(".")[0] == "fsspec" for kind in type(given).__mro__):
        return fs.PyFileSystem(fs.FSSpecHandler(given))
    raise ValueError(f"filesystem= takes a pyarrow.fs.FileSystem or a filesystem of fsspec; got {type(given).__name__}")


def _reached(address: Address) -> tuple[Any, str]:
    """Return the filesystem of an address, and the path in it."""
    import pyarrow as pa
    from pyarrow import fs

    url = os.fspath(address)
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("?")[0].partition("/")
    query = rest.partition("?")[1] + rest.partition("?")[2]
    # the names of files are written as they are, which signs of addresses may not be
    uri = f"{scheme}://{place}{slash}{quote(path)}{query}"
    found = None
    try:
        found = fs.FileSystem.from_uri(uri)
    except ImportError:  # of an address that pyarrow leaves to fsspec
        pass
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            # a password with a slash is taken for a path
            raise OSError(str(error).replace(uri, shown(url))) from None
    if found is None:
        return _by_fsspec(scheme, url)
    filesystem, inner = found
    # asked once in haste: these filesystems try for minutes, which is right only where an answer came before
    if filesystem.type_name == "s3":
        rebuild, (options,) = filesystem.__reduce__()
        once = fs.AwsStandardS3RetryStrategy(max_attempts=1)
        hasty = rebuild({**options, "connect_timeout": HASTE, "request_timeout": HASTE, "retry_strategy": once})
        hasty.get_file_info(inner)
    elif filesystem.type_name == "gcs" and "retry_limit_seconds" not in query:
        fs.FileSystem.from_uri(f"{uri}{'&' if query else '?'}retry_limit_seconds={HASTE}")[0].get_file_info(inner)
    return filesystem, inner


def _by_fsspec(scheme: str, url: str) -> tuple[Any, str]:
    extra = {"https": "http", "abfss": "abfs"}.get(scheme, scheme)
    pip = f"pip install 'fsspec[{extra}]'"
    try:
        from fsspec.core import url_to_fs
        from fsspec.registry import available_protocols, known_implementations
    except ImportError:
        raise ImportError(f"{scheme}:// needs fsspec; install it with: {pip}") from None
    known = known_implementations.get(scheme)
    if known is None and scheme not in available_protocols():
        raise ValueError(f"neither pyarrow nor fsspec knows {scheme}://")
    package = "fsspec" if known is None else known["class"].partition(".")[0]
    more: dict[str, Any] = {}
    try:
        if extra == "http":
            from aiohttp import ClientTimeout

            more = {"client_kwargs": {"timeout": ClientTimeout(sock_connect=HASTE, sock_read=3 * HASTE)}}
        filesystem, path = url_to_fs(url, **more)
    except ImportError:
        way = pip if package == "fsspec" else f"pip install fsspec {package}"
        raise ImportError(f"{scheme}:// needs a package beside fsspec; install it with: {way}") from None
    return as_filesystem(filesystem), path


# --- names, patterns and folders -------------------------------------------------------------------------------------


def is_several(path: Path) -> bool:
    """Return whether a path is a directory, a pattern or an address, which may stand for several files."""
    # a file whose name holds brackets or stars is that file
    return isinstance(path, Address) or path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def files_of(names: Sequence[str | os.PathLike[str]], filesystem: Any = None) -> list[Location]:
    """Return the files that names, patterns and folders stand for, in order; ValueError if there is none."""
    found: list[Location] = []
    for each in names:
        path = path_of(each)
        if (filesystem is not None or isinstance(path, Address)) and find_spec("pyarrow") is None:
            raise ImportError("files on filesystems need pyarrow; install it with: pip install 'confmax[cli]'")
        if filesystem is not None:
            given = as_filesystem(filesystem)
            found += _remote(given, _inner(given, os.fspath(each)), shown(os.fspath(each)))
        elif isinstance(path, Address):
            with reaching(path):
                reached = _reached(path)
            found += _remote(*reached, str(path), is_address=True)
        else:
            found += _local(str(path))
    for file in found:
        if file.filesystem is None and not os.path.isfile(file.path):
            raise ValueError(f"there is no file {file}; check the name and the folder")
        if file.format not in (".parquet", ".npy"):
            here = file.filesystem is None
            known = ".parquet, .npy, .csv, .tsv, .feather" if here else ".parquet, .npy"
            where = "" if here else " from filesystems"
            raise ValueError(f"{file} is none of {known}; these are read in parts{where}")
    if len({file.format for file in found}) > 1 or (found[0].format == ".npy" and len(found) > 1):
        raise ValueError(f"give Parquet files, or one .npy file; got {', '.join(map(str, found[:3]))}")
    return found


def _inner(filesystem: Any, name: str) -> str:
    """Return what a filesystem calls a file of its own, which may be given as an address."""
    own = getattr(getattr(filesystem, "handler", None), "fs", None)
    if own is not None:
        return str(own._strip_protocol(name))
    found = path_of(name)
    return name if not isinstance(found, Address) else os.fspath(found).partition("://")[2]


def _local(name: str) -> list[Location]:
    # a file whose name holds brackets or stars is that file, not a pattern
    if not glob.has_magic(name) or os.path.exists(name):
        matched = [name]
        base = name
    else:
        matched = sorted(glob.glob(name, recursive=True))
        base = _before_pattern(name, os.sep)[0]
    if not matched:
        raise ValueError(f"no file matches {name}; check the pattern and the folder")
    found = []
    for each in matched:
        inside = [each]
        if os.path.isdir(each):
            paths = sorted(glob.glob(os.path.join(glob.escape(each), "**", "*"), recursive=True))
            paths = [path for path in paths if not os.path.isdir(path)]
            inside = _readable(each, paths, [os.path.relpath(path, each).split(os.sep) for path in paths])
        found += [Location(path, Path(path), None, _keys(os.path.relpath(path, base or "."))) for path in inside]
    return found


def _remote(filesystem: Any, inner: str, name: str, *, is_address: bool = False) -> list[Location]:
    """Return the files of a filesystem that ``inner`` stands for, of which ``name`` is what messages call it."""
    from pyarrow.fs import FileSelector, FileType

    # in an address a question mark begins the query
    is_pattern = re.search(r"[*\[]", inner.partition("?")[0]) if is_address else glob.has_magic(inner)
    if "://" not in inner:
        inner, name = (each.rstrip("/") or each for each in (inner, name))
    with reaching(name):
        info = filesystem.get_file_info(inner)
        matched = [info]
        base = inner
        if info.type == FileType.NotFound and is_pattern:
            base, parts = _before_pattern(inner, "/")
            matched = _matching(filesystem, base, parts)
    if matched[:1] == [info] and info.type == FileType.NotFound:
        raise ValueError(
            f"there is no file {name}{_why(filesystem, inner)}; check the names of the file and of its bucket or folder"
        )
    if not matched:
        raise ValueError(f"no file matches {name}; check the pattern and the folder")
    # an address and the path in its filesystem end alike, and what stands before is the same for all files
    called, own = (each.split("/") for each in (name, inner))
    while called and own and called[-1] == own[-1]:
        del called[-1], own[-1]
    found = []
    for each in matched:
        inside = [each.path]
        if each.type == FileType.Directory:
            with reaching(name):
                infos = filesystem.get_file_info(FileSelector(each.path, recursive=True))
            paths = sorted(info.path for info in infos if info.is_file)
            inside = _readable(name, paths, [path[len(each.path) :].strip("/").split("/") for path in paths])
        for path in inside:
            below = path.split("/")
            full = path if "://" in path or below[: len(own)] != own else "/".join(called + below[len(own) :])
            found.append(Location(path, _named(full), filesystem, _keys(path[len(base) :])))
    return found


def _why(filesystem: Any, path: str) -> str:
    """Return, in brackets, why fsspec does not find a file, if it says so: the host may not be there."""
    own = getattr(getattr(filesystem, "handler", None), "fs", None)
    try:
        if own is not None:
            own.info(path)
    except Exception as error:
        return "" if error.__cause__ is None else f" ({shown_in(short(error.__cause__))})"
    return ""


def _named(name: str) -> Path:
    found = path_of(name)
    return Address.of(shown(os.fspath(found))) if isinstance(found, Address) else Path(name)


def _before_pattern(name: str, separator: str) -> tuple[str, list[str]]:
    """Return the folder above the first part of a pattern that is one, and the parts from there on."""
    parts = name.split(separator)
    first = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    return separator.join(parts[:first]) or (separator if first else ""), parts[first:]


def _matching(filesystem: Any, base: str, parts: Sequence[str]) -> list[Any]:
    """Return what matches the parts of a pattern below a folder, in sorted order."""
    from pyarrow.fs import FileSelector, FileType

    found = [base]
    for k, part in enumerate(parts):
        several = part == "**"
        if not glob.has_magic(part):
            found = [f"{folder.rstrip('/')}/{part}" for folder in found]
            continue
        below = [
            info
            for folder in found
            for info in filesystem.get_file_info(FileSelector(folder, allow_not_found=True, recursive=several))
            if info.path.rstrip("/") != folder.rstrip("/")
            and (several or fnmatch.fnmatchcase(info.base_name, part))
            and (part.startswith(".") or not info.base_name.startswith("."))
            and (k == len(parts) - 1 or info.type == FileType.Directory)
        ]
        found = [*(found if several and k < len(parts) - 1 else ()), *(info.path for info in below)]
    return [info for info in filesystem.get_file_info(sorted(set(found))) if info.type != FileType.NotFound]


def _readable(folder: str, paths: Sequence[str], parts: Sequence[Sequence[str]]) -> list[str]:
    """Return the Parquet files of a folder, of which ``parts`` are the names below it."""
    kept = [
        path
        for path, names in zip(paths, parts, strict=True)
        if path.lower().endswith(PARQUET) and not any(name.startswith(("_", ".")) for name in names)
    ]
    if not kept:
        raise ValueError(f"{folder} is a directory without .parquet files; name a file, or another folder")
    return kept


def _keys(path: str) -> dict[str, str | None]:
    """Return the keys and values in the names of the folders of a path."""
    folders = re.split(r"[/\\]", path)[:-1]
    pairs = (folder.partition("=")[::2] for folder in folders if "=" in folder)
    return {unquote(key): None if value == MISSING else unquote(value) for key, value in pairs}


def key_columns(files: Sequence[Location]) -> dict[str, Any]:
    """Return the keys of all files as Arrow arrays of a value for each file: whole numbers if all are, else strings.

    The types are those that ``pyarrow.dataset.partitioning(flavor="hive")`` infers.
    """
    import pyarrow as pa

    found = {}
    for key in dict.fromkeys(key for file in files for key in file.keys):
        values = pa.array([file.keys.get(key) for file in files], pa.string())
        try:
            found[key] = values.cast(pa.int32())
        except pa.ArrowInvalid:
            found[key] = values
    return found


# --- arrays ----------------------------------------------------------------------------------------------------------


def no_array(file: Location, why: Any) -> ValueError:
    """Return the error of a file that cannot be read as an array."""
    return ValueError(f"{file} cannot be read as an array: {short(why)}; save it again with numpy.save")


class RemoteArray:
    """A ``.npy`` file of another machine, of which rows are read when they are taken."""

    def __init__(self, file: Location) -> None:
        """Read the header of the file; a ValueError if it is none of an array that can be read by rows."""
        self.name = file
        with reaching(file):
            self.file = file.opened()
            head = BytesIO(self.file.read_at(min(HEADER, self.file.size()), 0))
        try:
            version = np.lib.format.read_magic(head)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, by_columns, self.dtype = header(head)
        except ValueError as error:
            raise no_array(file, error) from None
        if self.dtype.hasobject or (by_columns and len(self.shape) > 1):
            raise no_array(file, "it holds objects, or a matrix column after column")
        self.start = head.tell()
        self.ndim = len(self.shape)
        self.itemsize = self.dtype.itemsize

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        low, high, _ = rows.indices(len(self))
        width = self.itemsize * int(np.prod(self.shape[1:]))
        with reaching(self.name):
            data = self.file.read_at((high - low) * width, self.start + low * width)
        return np.frombuffer(data, self.dtype).reshape(-1, *self.shape[1:])
