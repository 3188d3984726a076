"""Errors of management that are not those of the model."""

from __future__ import annotations

from pyjms.spi.errors import ProviderError


class BadMethodError(ProviderError):
    """The resource does not support the method; `allowed` are those that it supports."""

    code = "PYJMS-REQUEST-METHOD"

    def __init__(self, reason: str, allowed: tuple[str, ...]) -> None:
        super().__init__(reason)
        self.allowed = allowed


class ChangedMeanwhileError(ProviderError):
    """An object is no longer the version that the caller has seen."""

    code = "PYJMS-CHANGED-MEANWHILE"


class ContentTypeError(ProviderError):
    """A body is in a format that is not supported here."""

    code = "PYJMS-REQUEST-TYPE"


class LockoutError(ProviderError):
    """A change would lock its own caller out."""

    code = "PYJMS-LOCK-OUT"


class RequestTooLargeError(ProviderError):
    """A body is longer than the port allows."""

    code = "PYJMS-REQUEST-SIZE"


class BadRequestError(ProviderError):
    """The request itself is wrong."""

    code = "PYJMS-REQUEST"


class BusyError(ProviderError):
    """All threads for requests are waiting."""

    code = "PYJMS-REQUEST-BUSY"


class UnknownHostError(ProviderError):
    """A request names a host that the port does not serve."""

    code = "PYJMS-REQUEST-HOST"


class UnknownJobError(ProviderError):
    """There is no such job, or it ended long ago."""

    code = "PYJMS-JOB-UNKNOWN"


class JobError(ProviderError):
    """A job cannot be started now."""

    code = "PYJMS-JOB"
