"""The error of a call whose connection was lost, and which may be made again: a client sees it, and a cluster repeats the call for its clients."""

from __future__ import annotations

from typing import Final

from pyjms.spi.errors import ClosedError, ConnectionLostError, ResourceError


class RepeatableError(ResourceError):
    """The connection was lost in a call that may be made again.

    It was not sent, or changes nothing, or a second one only says that there is nothing left to do.
    """


LOST: Final = (ClosedError, ConnectionLostError)
"""The errors of a connection to a shard of a cluster that has ended, where the client has closed nothing."""
REPEATED: Final = (*LOST, RepeatableError)
"""The errors after which a call that may be repeated is made again: a link that was lost in it comes back, or is replaced as the others are."""
