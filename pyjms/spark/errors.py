"""What may go wrong between Spark and JMS, beside what may go wrong with the message system itself."""

from __future__ import annotations

from pyjms.spi.errors import ProviderError

__all__ = ["DataLossError", "OptionError", "RowError", "SpoolError"]


class OptionError(ProviderError):
    """An option of ``format("jms")`` is missing, unknown or wrong; the text names it and says what to write."""

    code = "PYJMS-OPTION"


class RowError(ProviderError):
    """A column or a row cannot become a message, or a message not the column that is wanted."""

    code = "PYJMS-ROW"


class DataLossError(ProviderError):
    """A checkpoint asks for messages that are not there any more; ``failOnDataLoss=false`` goes on without them."""

    code = "PYJMS-DATA-LOSS"


class SpoolError(ProviderError):
    """The folder of spooled messages is in use, damaged, or cannot be written."""

    code = "PYJMS-SPOOL"
