"""Whether Spark's file sink will take the batches of a query for new ones.

It keeps the number of the last batch in the folder itself, and passes over batches up to that number, of whichever query they are, while Spark
commits them and their messages are acknowledged. So a query whose checkpoint is new, or an old copy, would lose what it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spark.archives import METADATA, log_number
from pyjms.spark.errors import DataLossError
from pyjms.spark.places import inside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_place"]


def check_place(session: SparkSession, directory: str, checkpoint: str) -> None:
    """Look that no batch of `directory` is later than those that `checkpoint` knows. Raises `DataLossError`.

    A batch that the checkpoint has planned and not committed is repeated, message by message, and may be in the folder.
    """
    written = _newest(session, f"{directory.rstrip('/')}/{METADATA}")
    known = max(_newest(session, f"{checkpoint.rstrip('/')}/{log}") for log in ("offsets", "commits"))
    if written > known:
        raise DataLossError(
            f"{directory} has batches up to {written}, and the checkpoint {checkpoint} "
            f"{f'knows them up to {known}' if known >= 0 else 'knows none'}: it is new, or an old copy, or another query's. Spark would pass "
            "over new messages, as it has batches of these numbers in the folder already. Archive into a new folder with a new checkpoint, for "
            "the same group: it goes on with what is not acknowledged, and the batch that was under way may come again"
        )


def _newest(session: SparkSession, folder: str) -> int:
    """Return the highest number in a log of Spark's, wherever Spark keeps it; -1: none."""
    numbers = [log_number(each.name) for each in inside(session, folder) or ()]
    return max((number for number in numbers if number is not None), default=-1)
