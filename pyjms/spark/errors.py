"""What may go wrong between Spark and JMS, beside what may go wrong with the message system itself."""

from __future__ import annotations

from pyjms.spi.errors import ProviderError


class OptionError(ProviderError):
    """An option of ``format("jms")`` is missing, unknown or wrong; the text names it and says what to write."""

    code = "PYJMS-OPTION"


class RowError(ProviderError):
    """A column or a row cannot become a message, or a message not the column that is wanted."""

    code = "PYJMS-ROW"


class DataLossError(ProviderError):
    """A checkpoint asks for messages that are not there any more, or is behind what was written already.

    ``failOnDataLoss=false`` goes on without them, but never from an old copy of a checkpoint: its numbers of batches are in use.
    """

    code = "PYJMS-DATA-LOSS"


class SpoolError(ProviderError):
    """The folder of spooled messages is in use, damaged, or cannot be written."""

    code = "PYJMS-SPOOL"


def old_checkpoint(seq: int, holder: str, low: int) -> DataLossError:
    """Return what a query is told whose checkpoint is behind what `holder` has let go, whatever ``failOnDataLoss`` says."""
    return DataLossError(
        f"the checkpoint is at message {seq} of {holder}, whose messages up to {low} are acknowledged and gone: the checkpoint is an old copy. "
        "Start the query with a new checkpoint and a new output folder or sinkId, and the same readerGroup or spoolDir: it goes on with what "
        "is not acknowledged. failOnDataLoss=false does not help here: the output knows the numbers of the next batches already, and would "
        "pass new messages over"
    )
