"""JMS 1.1 §7.2 and the constructors of §7.3: how exceptions are made, and what they tell."""

from __future__ import annotations

from typing import Any

import pytest

import pyjms
from pyjms import JMSException
from pyjms_tck.checks import Checks, expect
from pyjms_tck.requirements import requirement

_STANDARD = (
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSSecurityException",
    "MessageEOFException",
    "MessageFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "ResourceAllocationException",
    "TransactionInProgressException",
    "TransactionRolledBackException",
)


def _check_construction(kind: Any) -> None:
    name = kind.__name__
    with Checks() as check:
        for how, error, code in (
            (f"{name}('the reason')", kind("the reason"), None),
            (f"{name}('the reason', 'E1')", kind("the reason", "E1"), "E1"),
            (f"{name}(reason=..., error_code=...)", kind(reason="the reason", error_code="E1"), "E1"),
        ):
            check.same(f"getMessage of {how}", error.getMessage(), "the reason")
            check.same(f"the text of {how}", str(error), "the reason")
            check.same(f"getErrorCode of {how}", error.getErrorCode(), code)
            check.same(f"error_code of {how}", error.error_code, code)
            check.same(f"getLinkedException of {how}", error.getLinkedException(), None)


@requirement("7.2-a")
def test_7_2_a_a_jms_exception_is_made_with_reason_and_code() -> None:
    _check_construction(JMSException)
    expect("the reason of one made with null", JMSException(None).getMessage(), None)


@requirement("7.2-b")
def test_7_2_b_the_error_code_is_returned() -> None:
    for code in ("E1", "", None):
        error = JMSException("the reason", code)
        expect(f"getErrorCode of an error made with {code!r}", error.getErrorCode(), code)
        expect(f"error_code of an error made with {code!r}", error.error_code, code)


@requirement("7.2-c")
def test_7_2_c_the_cause_is_stored() -> None:
    error, cause = JMSException("the reason"), ValueError("the cause")
    expect("getLinkedException by default", error.getLinkedException(), None)
    error.setLinkedException(cause)
    expect("getLinkedException after it was set", error.getLinkedException(), cause)
    error.linked_exception = None
    expect("linked_exception after it was set to null", error.linked_exception, None)


@requirement("7.3-a")
@pytest.mark.parametrize("name", _STANDARD)
def test_7_3_a_standard_exceptions_are_made_with_reason_and_code(name: str) -> None:
    _check_construction(getattr(pyjms, name))
