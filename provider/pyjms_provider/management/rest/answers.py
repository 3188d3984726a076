r"""Answers: JSON, the status of each error, and headers that tell a browser to run nothing the broker did not send.

Java's strings, and so those of messages, may hold half of a surrogate pair. UTF-8 cannot, so it is written as JSON's escape,
``\ud800``: otherwise one such message would keep an operator from seeing the others of its queue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette import responses

from pyjms.spi.errors import (
    AccessDeniedError,
    DestinationError,
    DestinationInUseError,
    InDoubtError,
    InvalidSelectorError,
    ProviderError,
    ResourceError,
    SubscriptionInUseError,
)
from pyjms.spi.workflows import UnknownWorkflowError, WorkflowChangedError, WorkflowStateError
from pyjms_provider.management.errors import (
    BadMethodError,
    BadRequestError,
    BusyError,
    ChangedMeanwhileError,
    ContentTypeError,
    JobError,
    LockoutError,
    RequestTooLargeError,
    UnknownHostError,
    UnknownJobError,
)
from pyjms_provider.management.rest.identity import ForgedRequestError
from pyjms_provider.model import errors as model
from pyjms_provider.model.configuration.json_file import EditedFileError

if TYPE_CHECKING:
    from starlette.responses import Response


SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def secured(response: Response) -> Response:
    """Return the answer with these headers, unless it has its own."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


class JSONResponse(responses.JSONResponse):
    """Starlette's JSONResponse, for all texts."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Half of a pair is inside a string, where this is JSON's own escape of it.
        return text.encode("utf-8", "backslashreplace")


# The first class that matches decides.
STATUSES: Final[tuple[tuple[type[ProviderError], int], ...]] = (
    (ForgedRequestError, 403),
    (AccessDeniedError, 403),
    (model.UnknownObjectError, 404),
    (model.UnknownCategoryError, 404),
    (model.UnknownOperationError, 404),
    (UnknownJobError, 404),
    (BadMethodError, 405),
    (ChangedMeanwhileError, 412),
    (UnknownWorkflowError, 404),
    (WorkflowStateError, 409),
    (WorkflowChangedError, 412),
    (LockoutError, 409),
    (model.NotChangeableError, 409),
    (model.ObjectExistsError, 409),
    (model.ObjectInUseError, 409),
    (model.WrongStateError, 409),
    (DestinationInUseError, 409),
    (EditedFileError, 409),
    (SubscriptionInUseError, 409),
    (model.InvalidAttributesError, 422),
    (model.InvalidArgumentsError, 422),
    (InvalidSelectorError, 400),
    (RequestTooLargeError, 413),
    (UnknownHostError, 421),
    (ContentTypeError, 415),
    (BadRequestError, 400),
    (DestinationError, 404),
    (model.FailedOpeningError, 502),
    (model.ConfigurationTimeoutError, 503),
    (JobError, 503),
    (BusyError, 503),
    (InDoubtError, 503),
    (ResourceError, 503),
)


def status_of(error: ProviderError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 400)


def error_data(error: ProviderError) -> dict[str, Any]:
    """Return an error as JSON: its stable code, the remedy, and the wrong values."""
    data: dict[str, Any] = {"code": error.code, "reason": error.reason}
    problems = getattr(error, "problems", None)
    if problems:
        data["problems"] = [{"name": each.name, "text": each.text} for each in problems]
    if isinstance(error, InvalidSelectorError):
        data |= {"problem": error.problem, "position": error.position}
    return data


def refuse(error: ProviderError, *, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for an error."""
    # RFC 9110 §15.5.6: 405 lists the supported methods.
    allowed = {"allow": ", ".join(error.allowed)} if isinstance(error, BadMethodError) else {}
    return JSONResponse(
        {"error": error_data(error)}, status or status_of(error), headers={**allowed, **(headers or {})}
    )
