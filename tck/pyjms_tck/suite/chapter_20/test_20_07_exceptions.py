"""The unchecked exceptions of the simplified API (20.7)."""

from __future__ import annotations

from typing import Any

import pytest

import pyjms
from pyjms import JMSException, JMSRuntimeException
from pyjms_tck.requirements import requirement

NAMES = (
    "IllegalState", "InvalidClientID", "InvalidDestination", "InvalidSelector", "JMS", "JMSSecurity", "MessageFormat",
    "MessageNotWriteable", "ResourceAllocation", "TransactionInProgress", "TransactionRolledBack",
)  # fmt: skip


@requirement("20.7-a")
@pytest.mark.parametrize("name", NAMES)
def test_20_7_a_an_exception_has_a_reason_a_code_and_a_cause(name: str) -> None:
    kind: Any = getattr(pyjms, f"{name}RuntimeException")
    cause = ValueError("cause")
    for made, code, because in (
        (kind("reason"), None, None),
        (kind("reason", "code"), "code", None),
        (kind("reason", "code", cause), "code", cause),
    ):
        assert (made.getMessage(), made.getErrorCode(), made.getCause()) == ("reason", code, because)
        assert str(made) == "reason"
    assert kind("reason", "code").error_code == "code"


@requirement("20.7-b")
@pytest.mark.parametrize("name", NAMES)
def test_20_7_b_the_exceptions_are_unchecked(name: str) -> None:
    kind: Any = getattr(pyjms, f"{name}RuntimeException")
    assert issubclass(kind, JMSRuntimeException)
    assert not issubclass(kind, JMSException)
