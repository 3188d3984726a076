"""Locations of files: on this machine, or on any file system that Hadoop reaches, as Spark itself sees them.

A *place* is a location as a user writes it: a path, or a URL such as ``hdfs://namenode/history``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from pyjms.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*):(?://(?P<host>[^/]*))?(?P<path>/.*|)", re.DOTALL)
"""The syntax of Hadoop: no percent-encoding, and no query part."""
_SPECIAL = re.compile(r"[{}\[\]*?\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file in a folder."""

    place: str
    below: tuple[str, ...]
    """The names on the path from the folder that was listed, its own name last."""
    size: int
    """In bytes."""
    is_folder: bool

    @property
    def name(self) -> str:
        """Its own name."""
        return self.below[-1]


def local_path(place: str) -> Path | None:
    """Return the local path of a place, with links resolved; None if it is elsewhere, or only Spark knows it."""
    url = _URL.fullmatch(place)
    if url is None:
        return Path(place).resolve()
    return Path(url["path"]).resolve() if url["scheme"].lower() == "file" and not url["host"] else None


def are_within(one: str, other: str) -> bool:
    """Say whether one of two places is the other, or contains or lies in it. Only `matches` knows the places that a URL
    with wildcards matches.
    """
    return _holds(one, other) or _holds(other, one)


def _holds(outer: str, inner: str) -> bool:
    (ours, is_pattern), (theirs, _) = _steps(outer), _steps(inner)
    # A pattern gives no certainty: what is below its literal part may not match the rest of it.
    return not is_pattern and theirs[: len(ours)] == ours


def _steps(place: str) -> tuple[tuple[str, ...], bool]:
    """Return the names on the path of a place, up to the first with wildcards, and whether there is one."""
    path, url = local_path(place), _URL.fullmatch(place)
    if url is None:
        assert path is not None, "what is no URL is on this machine"
        return ("file", "", *path.parts), False
    known = _SPECIAL.split(url["path"] if path is None else str(path), maxsplit=1)
    # The first name with wildcards is dropped as a whole, as its beginning is no folder.
    certain = known[0] if len(known) == 1 else known[0].rpartition("/")[0]
    # Normalised by text alone: the place may be on another machine, where links cannot be followed.
    steps = Path(normpath(f"/{certain.lstrip('/')}")).parts
    return (url["scheme"].lower(), url["host"] or "", *steps), len(known) > 1


def literally(place: Path | str) -> str:
    """Return a place quoted for Spark, which otherwise expands wildcards."""
    return _SPECIAL.sub(r"\\\g<0>", str(place))


# ------------------------------------------------------------------------------------------------- as Hadoop sees them


def qualified(session: SparkSession, place: str) -> str:
    """Return a place with its scheme and host, as Spark understands it."""
    files, path = _files(session, place)
    return str(files.makeQualified(path).toString())


def matches(session: SparkSession, place: str) -> list[str]:
    """Return the existing locations that a place, which may have wildcards, matches."""
    files, path = _files(session, place)
    return [str(each.getPath().toString()) for each in files.globStatus(path) or ()]


def exists(session: SparkSession, place: str) -> bool:
    """Say whether a place exists."""
    files, path = _files(session, place)
    return bool(files.exists(path))


def parents(session: SparkSession, place: str) -> Iterator[str]:
    """Yield the parent folders of a place, the nearest first."""
    path = _jvm(session).org.apache.hadoop.fs.Path(qualified(session, place)).getParent()
    while path is not None:
        yield str(path.toString())
        path = path.getParent()


def make_folder(session: SparkSession, place: str) -> None:
    """Make a folder to write into, if there is none. Raises `OptionError` with the reason if that is impossible."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    files, path = _files(session, place)
    try:
        is_made = bool(files.mkdirs(path))
    except Py4JJavaError as error:
        # Other errors, such as a name node that does not answer, may be temporary: they are not the user's mistake.
        if str(error.java_exception.getClass().getSimpleName()) not in _NO_FOLDER:
            raise
        is_made = False
    # `mkdirs` succeeds for a folder that exists and may not be written to; `os.access` can only ask this machine.
    local = local_path(qualified(session, place))
    if not is_made or (local is not None and not os.access(local, os.W_OK | os.X_OK)):
        raise OptionError(f"{place} cannot be written to: {_in_the_way(session, place)}; name another folder")


_NO_FOLDER = frozenset({"AccessControlException", "FileAlreadyExistsException", "ParentNotDirectoryException"})
"""Errors of Hadoop's file systems for a folder that cannot be made, at a second attempt either."""


def _in_the_way(session: SparkSession, place: str) -> str:
    files, _ = _files(session, place)
    # The nearest place that exists is the reason: everything below it would have been made.
    for each in (qualified(session, place), *parents(session, place)):
        path = _jvm(session).org.apache.hadoop.fs.Path(each)
        if exists(session, each):
            return f"{each} {'does not permit it' if files.getFileStatus(path).isDirectory() else 'is a file'}"
    return "there is nothing above it"


def inside(session: SparkSession, place: str) -> list[Found] | None:
    """Return the entries of a folder, in order; None if nothing exists at that place. A file counts as its own folder."""
    files, path = _files(session, place)
    if not files.exists(path):
        return None
    return _listed(files, path, ())


def all_below(session: SparkSession, place: str) -> Iterator[Found]:
    """Yield all files in a folder and its subfolders, in order. A place that is a file yields itself."""
    files, path = _files(session, place)
    return _below(files, path, ())


def text_of(session: SparkSession, place: str) -> str:
    """Return the text of a file."""
    files, path = _files(session, place)
    # Read by the JVM: Python has no access to HDFS or object stores, and their libraries are Spark's.
    stream = files.open(path)
    try:
        return str(_jvm(session).org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _files(session: SparkSession, place: str) -> tuple[Any, Any]:
    spark: Any = session
    # Hadoop resolves the file system: the same text may mean HDFS on a cluster and this machine in local mode.
    path = _jvm(session).org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path  # noqa: SLF001


def _jvm(session: SparkSession) -> Any:
    spark: Any = session
    return spark._jvm  # noqa: SLF001 -- PySpark has no other way to where Spark keeps files


def _listed(files: Any, path: Any, above: tuple[str, ...]) -> list[Found]:
    found = [
        Found(
            place=str(status.getPath().toString()),
            below=(*above, str(status.getPath().getName())),
            size=int(status.getLen()),
            is_folder=bool(status.isDirectory()),
        )
        for status in files.listStatus(path)
    ]
    # File systems list their entries in any order.
    return sorted(found, key=lambda each: each.below)


def _below(files: Any, path: Any, above: tuple[str, ...]) -> Iterator[Found]:
    for each in _listed(files, path, above):
        if each.is_folder:
            yield from _below(files, path.suffix(f"/{each.name}"), each.below)
        else:
            yield each
