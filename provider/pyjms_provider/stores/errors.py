"""The errors of durable stores: one class for each kind of failure that needs its own remedy.

All are `ResourceError`: a client sees a `ResourceAllocationException` whose error code is the class's `code`.
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
    "PagingFullError",
    "ReadOnlyStoreError",
    "StoreError",
    "StorePluginError",
    "TakenNameError",
    "UnavailableStoreError",
    "UncertainWriteError",
    "UnsupportedStoreError",
    "UnusableStoreError",
    "WrongClusterError",
]


class StoreError(ResourceError):
    """The root of the errors of stores; raised itself when a single write fails, for instance because the disk is full."""

    code = "PYJMS-STORE"


class UnsupportedStoreError(StoreError):
    """No store is installed for the URL's scheme, or the store does not support an option."""

    code = "PYJMS-STORE-UNSUPPORTED"


class StorePluginError(StoreError):
    """The plug-in for the URL's scheme is unusable: it cannot be imported, or does not implement the contract."""

    code = "PYJMS-STORE-PLUGIN"


class AmbiguousStoreError(StoreError):
    """Two installed packages provide a store for the URL's scheme."""

    code = "PYJMS-STORE-AMBIGUOUS"


class UnusableStoreError(StoreError):
    """The database cannot be opened or written: read-only, no such directory, no permission, no server."""

    code = "PYJMS-STORE-UNUSABLE"


class UnavailableStoreError(StoreError):
    """Nothing can be written at the moment: the database is locked or unreachable."""

    code = "PYJMS-STORE-UNAVAILABLE"


class ReadOnlyStoreError(UnavailableStoreError):
    """The server is read-only now: a standby, or one in a failover. It is the right server, and may accept writes later."""


class UncertainWriteError(UnavailableStoreError):
    """The connection was lost during a write: it may have been written."""


class ForeignStoreError(StoreError):
    """The database belongs to another application."""

    code = "PYJMS-STORE-FOREIGN"


class NewerStoreError(StoreError):
    """The database was written by a newer version of pyjms."""

    code = "PYJMS-STORE-NEWER"


class DamagedStoreError(StoreError):
    """The database is damaged: not a database, truncated, or changed by another program."""

    code = "PYJMS-STORE-DAMAGED"


class HeldStoreError(StoreError):
    """Another broker holds the store."""

    code = "PYJMS-STORE-HELD"


class LostStoreError(StoreError):
    """This broker has lost the store, and another one may hold it now: nothing may be written any more."""

    code = "PYJMS-STORE-LOST"


class PagingFullError(StoreError):
    """Memory is full, and the temporary file takes no more messages: its disk is full, or its limit is reached."""

    code = "PYJMS-PAGING-FULL"


class CodecError(StoreError):
    """Stored bytes are not a message, or a message cannot be stored."""

    code = "PYJMS-STORE-MESSAGE"


class WrongClusterError(StoreError):
    """The tables of a cluster have other facts than its member expects."""


class TakenNameError(StoreError):
    """A cluster has a member of that name, which is alive."""
