"""The files of an archive: its columns, the formats that preserve them, and which files belong to it.

Spark's file sink lists the files of each batch in the folder ``_spark_metadata``; a file that is not listed is the
remainder of an interrupted batch. The list has whole paths, so the files of a moved or copied archive are found by the
ends of these paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyjms.spark.options import DataLossError, OptionError, check_folder
from pyjms.spark.places import all_below, exists, inside, literally, matches, parents, qualified, text_of
from pyjms.spark.schema import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ARCHIVE_SCHEMA = f"{SCHEMA}, day date"
"""The columns of an archive: those of ``format("jms")``, and the day (UTC) of JMSTimestamp, which names the folders."""
FORMS: Final = ("parquet", "orc", "json", "delta")
"""The formats that preserve all column types, and maps with nulls. Spark needs another package for the last of them."""
METADATA = "_spark_metadata"
"""The folder where Spark's file sink lists its files, below theirs."""

_OPTIONS = {"json": {"mode": "FAILFAST", "maxStringLen": str(2**31 - 1)}}
"""A line that is no JSON, or is longer than JSON readers accept, would otherwise become a message of nulls."""
_LOG = re.compile(r"([0-9]+)(\.compact)?")
_PATH = re.compile(r"(?P<root>.*?)/+(?P<own>(?:day=[^/]*/)?[^/]+)", re.DOTALL)


def check_form(form: str) -> None:
    """Raise `OptionError` for a format that does not preserve the columns."""
    if form not in FORMS:
        raise OptionError(f"the format of an archive is none of {', '.join(FORMS)}: {form!r}")


def read_archive(
    session: SparkSession, directory: str, *, where: str | None = None, form: str = "parquet"
) -> DataFrame:
    """Return the messages of an archive that `where`, a condition of Spark SQL, selects.

    The archive may have been moved, or be a copy. Raises `OptionError` if files are missing, if the directory is only a
    part of an archive, and if the format is unknown or not the archive's.
    """
    check_form(form)
    check_folder(directory)
    if form != "delta":  # whose parts are no tables
        _check_whole(session, directory)
    reader = session.read.format(form).options(**_OPTIONS.get(form, {}))
    if form == "delta":
        rows = reader.load(directory)
    elif (files := _moved(session, directory, form)) is None:
        rows = reader.schema(ARCHIVE_SCHEMA).load(directory)
    elif files:
        rows = reader.schema(ARCHIVE_SCHEMA).option("basePath", directory).load([literally(each) for each in files])
    else:
        rows = session.createDataFrame([], ARCHIVE_SCHEMA)
    return rows if where is None else rows.where(where)


def log_number(name: str) -> int | None:
    """Return the batch number in the name of a file of one of Spark's logs; None for other files."""
    match = _LOG.fullmatch(name)
    return None if match is None else int(match[1])


def _check_whole(session: SparkSession, directory: str) -> None:
    """Check that a place is not a part of an archive: there Spark would read all files, including those of interrupted
    batches.
    """
    # A folder with wildcard characters in its name is taken literally where it exists.
    found = [directory] if exists(session, directory) else matches(session, directory)
    for place in found:
        if exists(session, f"{place.rstrip('/')}/{METADATA}"):
            continue
        above = next(
            (each for each in parents(session, place) if exists(session, f"{each.rstrip('/')}/{METADATA}")), None
        )
        if above is not None:
            raise OptionError(
                f"{directory} is a part of the archive {above}, and may have files of a batch that broke off, whose messages came again: name the archive "
                "itself, and choose by a condition, such as --where \"day = '2026-01-31'\""
            )


def _check_endings(directory: str, files: Iterable[str], form: str) -> None:
    others = sorted({each for each in FORMS for file in files if file.endswith(f".{each}")} - {form})
    if others:
        raise OptionError(
            f"the files of the archive {directory} are {others[0]}, not {form}: give --format {others[0]}"
        )


def _moved(session: SparkSession, directory: str, form: str) -> list[str] | None:
    """Return the files of an archive that was moved or copied after it was written; None if it was not, or has no log."""
    committed = _committed(session, directory)
    _check_endings(directory, committed, form)
    parts = {match["own"]: match for match in map(_PATH.fullmatch, committed) if match is not None}
    # Both sides are qualified by Hadoop: the log has URLs with scheme and host, and users write plain paths.
    here = qualified(session, directory)
    if all(qualified(session, root) == here for root in {match["root"] for match in parts.values()}):
        return None
    # The log's roots are of the former place, so files are matched by their names below the archive's folder.
    there = {"/".join(each.below): each for each in all_below(session, directory)}
    # Lengths are compared, as a copy that was interrupted, or made while a batch was written, has files with the right
    # names.
    missing = sorted(own for own, match in parts.items() if own not in there or there[own].size != committed[match[0]])
    if missing:
        raise OptionError(
            f"the archive {directory} was moved or copied, and {len(missing):,} of its {len(parts):,} files are missing or of another length, {missing[0]} among them: "
            "copy it as a whole, while nothing is archived into it"
        )
    return [there[own].place for own in parts]


def _committed(session: SparkSession, directory: str) -> dict[str, int]:
    """Return the paths, as they were when written, and lengths of all files of completed batches."""
    logs = {each.name: each.place for each in inside(session, f"{directory.rstrip('/')}/{METADATA}") or ()}
    numbers = {name: number for name in logs if (number := log_number(name)) is not None}
    # A compact file of Spark repeats everything before it, and older files may
    # be deleted: reading starts at the newest one.
    since = max((number for name, number in numbers.items() if name.endswith(".compact")), default=-1)
    wanted = [name for name, number in numbers.items() if number > since or name == f"{since}.compact"]
    found: dict[str, int] = {}
    for name in sorted(wanted, key=numbers.__getitem__):
        for line in text_of(session, logs[name]).splitlines()[1:]:  # the first is the version
            entry = json.loads(line)
            # Spark logs paths as URIs; the names of an archive's files may have characters that are percent-encoded
            # there.
            path = unquote(entry["path"])
            # The log is replayed in the order of its batches: a later entry may take back a former one.
            if entry["action"] == "delete":
                found.pop(path, None)
            else:
                found[path] = int(entry["size"])
    return found


# Whether Spark's file sink will take the batches of a query for new ones. The sink stores the number of the last batch
# in the folder itself, and skips batches up to that number, of any query, while Spark commits them and their messages
# are acknowledged. So a query whose checkpoint is new, or an old copy, would lose the messages that it reads.


def check_place(session: SparkSession, directory: str, checkpoint: str) -> None:
    """Check that no batch of `directory` is later than those that `checkpoint` knows. Raises `DataLossError`.

    A batch that the checkpoint has planned and not committed is repeated, message by message, and may be in the folder.
    """
    written = _newest(session, f"{directory.rstrip('/')}/{METADATA}")
    # Both logs count: a batch that is planned and not committed is repeated
    # message by message, and may be in the folder.
    known = max(_newest(session, f"{checkpoint.rstrip('/')}/{log}") for log in ("offsets", "commits"))
    if written > known:
        raise DataLossError(
            f"{directory} has batches up to {written}, and the checkpoint {checkpoint} "
            f"{f'knows them up to {known}' if known >= 0 else 'knows none'}: it is new, or an old copy, or another query's. Spark would pass "
            "over new messages, as it has batches of these numbers in the folder already. Archive into a new folder with a new checkpoint, for "
            "the same group: it goes on with what is not acknowledged, and the batch that was under way may come again"
        )


def _newest(session: SparkSession, folder: str) -> int:
    """Return the highest number in a log of Spark's, on any file system; -1 if there is none."""
    numbers = [log_number(each.name) for each in inside(session, folder) or ()]
    return max((number for number in numbers if number is not None), default=-1)
