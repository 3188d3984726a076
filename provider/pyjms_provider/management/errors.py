"""What may go wrong between an operator and the model."""

from __future__ import annotations

from pyjms.spi.errors import ProviderError


class BadMethodError(ProviderError):
    """What is there cannot be asked so; `allowed` are the methods that it understands."""

    code = "PYJMS-REQUEST-METHOD"

    def __init__(self, reason: str, allowed: tuple[str, ...]) -> None:
        super().__init__(reason)
        self.allowed = allowed


class ChangedMeanwhileError(ProviderError):
    """An object is no longer the version that the caller has seen."""

    code = "PYJMS-CHANGED-MEANWHILE"


class ContentTypeError(ProviderError):
    """A body is in no form that is understood here."""

    code = "PYJMS-REQUEST-TYPE"


class LockoutError(ProviderError):
    """A change would lock its own caller out."""

    code = "PYJMS-LOCK-OUT"


class RequestTooLargeError(ProviderError):
    """A body is longer than the port takes."""

    code = "PYJMS-REQUEST-SIZE"


class BadRequestError(ProviderError):
    """The request itself makes no sense."""

    code = "PYJMS-REQUEST"


class BusyError(ProviderError):
    """As many requests as there are threads for wait for something."""

    code = "PYJMS-REQUEST-BUSY"


class UnknownHostError(ProviderError):
    """A request is for a host as which the port does not answer."""

    code = "PYJMS-REQUEST-HOST"


class UnknownJobError(ProviderError):
    """There is no such job, or it ended long ago."""

    code = "PYJMS-JOB-UNKNOWN"


class JobError(ProviderError):
    """A job cannot be started now."""

    code = "PYJMS-JOB"
