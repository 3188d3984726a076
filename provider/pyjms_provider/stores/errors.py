"""What may go wrong with a durable store, a class for each failure that is remedied in its own way.

All are `ResourceError`: a client sees a `ResourceAllocationException`, and its error code is the class's `code`.
"""

from __future__ import annotations

from pyjms.spi.errors import ResourceError

__all__ = [
    "AmbiguousStoreError",
    "CodecError",
    "DamagedStoreError",
    "ForeignStoreError",
    "HeldStoreError",
    "LostStoreError",
    "NewerStoreError",
    "ReadOnlyStoreError",
    "StoreError",
    "StorePluginError",
    "UnavailableStoreError",
    "UnsupportedStoreError",
    "UnusableStoreError",
]


class StoreError(ResourceError):
    """Root of the errors of stores, and what is raised when one write cannot be done: the disk is full."""

    code = "PYJMS-STORE"


class UnsupportedStoreError(StoreError):
    """No store is installed for the URL's scheme, or that store does not do what was asked for."""

    code = "PYJMS-STORE-UNSUPPORTED"


class StorePluginError(StoreError):
    """What another package brings for the URL's scheme cannot be used: it cannot be imported, or is not what it must be."""

    code = "PYJMS-STORE-PLUGIN"


class AmbiguousStoreError(StoreError):
    """Two packages bring a store for the URL's scheme."""

    code = "PYJMS-STORE-AMBIGUOUS"


class UnusableStoreError(StoreError):
    """The database cannot be opened or written: read-only, no such directory, no permission, no server."""

    code = "PYJMS-STORE-UNUSABLE"


class UnavailableStoreError(StoreError):
    """Nothing can be written just now: the database is locked or gone."""

    code = "PYJMS-STORE-UNAVAILABLE"


class ReadOnlyStoreError(UnavailableStoreError):
    """The server takes no writes now: it stands by for another one, or fails over. So it is the right one, and may take them later."""


class ForeignStoreError(StoreError):
    """The database belongs to somebody else."""

    code = "PYJMS-STORE-FOREIGN"


class NewerStoreError(StoreError):
    """The database was written by a newer version of pyjms."""

    code = "PYJMS-STORE-NEWER"


class DamagedStoreError(StoreError):
    """The database is damaged: not a database, cut short, or changed by somebody else."""

    code = "PYJMS-STORE-DAMAGED"


class HeldStoreError(StoreError):
    """Another broker holds the store."""

    code = "PYJMS-STORE-HELD"


class LostStoreError(StoreError):
    """This broker held the store, and another one may hold it now: nothing may be written any more."""

    code = "PYJMS-STORE-LOST"


class CodecError(StoreError):
    """Stored bytes are not a message, or a message cannot be stored."""

    code = "PYJMS-STORE-MESSAGE"
