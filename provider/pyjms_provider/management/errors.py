"""What may go wrong between an operator and the model."""

from __future__ import annotations

from pyjms.spi.errors import ProviderError

__all__ = ["BadRequestError", "JobError", "UnknownJobError"]


class BadRequestError(ProviderError):
    """The request itself makes no sense."""

    code = "PYJMS-REQUEST"


class UnknownJobError(ProviderError):
    """There is no such job, or it ended long ago."""

    code = "PYJMS-JOB-UNKNOWN"


class JobError(ProviderError):
    """A job cannot be started now."""

    code = "PYJMS-JOB"
