"""Each error of the SPI becomes the exception of JMS 1.1 §7 that it names, and nothing is lost on the way."""

from __future__ import annotations

import inspect

import pytest

import pyjms
from pyjms import JMSException
from pyjms.runtime.error_mapping import mapped_errors, to_jms
from pyjms.spi import errors
from pyjms.spi.errors import InvalidSelectorError, ProviderError, ResourceError

ERRORS = sorted(
    (each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, ProviderError)),
    key=lambda each: each.__name__,
)

EXPECTED = {
    "AccessDeniedError": "JMSSecurityException",
    "BranchError": "JMSException",
    "CapabilityError": "JMSException",
    "ClosedError": "IllegalStateException",
    "ConnectionLostError": "JMSException",
    "DestinationError": "InvalidDestinationException",
    "DestinationInUseError": "JMSException",
    "DuplicateClientIdError": "InvalidClientIDException",
    "InDoubtError": "JMSException",
    "SupersededError": "JMSException",
    "TooLateError": "JMSException",
    "InvalidSelectorError": "InvalidSelectorException",
    "FencedError": "JMSException",
    "TooLargeError": "ResourceAllocationException",
    "GoneError": "ResourceAllocationException",
    "GroupError": "JMSException",
    "MissingProviderError": "JMSException",
    "ProgramEndsError": "JMSException",
    "ProviderError": "JMSException",
    "RegistrationError": "JMSException",
    "ResourceError": "ResourceAllocationException",
    "RolledBackError": "TransactionRolledBackException",
    "StageError": "JMSException",
    "SubscriptionInUseError": "JMSException",
    "UnknownSubscriptionError": "InvalidDestinationException",
    "UrlError": "JMSException",
}


def make(kind: type[ProviderError]) -> ProviderError:
    """Return an error of this kind."""
    if kind is InvalidSelectorError:
        return InvalidSelectorError("unexpected text", "a >", 3)
    return kind("the reason")


def test_every_error_of_the_spi_is_here() -> None:
    assert [each.__name__ for each in ERRORS] == sorted(EXPECTED)
    assert set(errors.__all__) == set(EXPECTED)


@pytest.mark.realises("BOIL-EXC-1")
@pytest.mark.parametrize("kind", ERRORS, ids=lambda each: each.__name__)
def test_an_error_becomes_its_exception(kind: type[ProviderError]) -> None:
    error = make(kind)
    exception = to_jms(error)
    assert type(exception) is getattr(pyjms, EXPECTED[kind.__name__])
    assert isinstance(exception, JMSException)
    assert exception.message == error.reason
    assert exception.error_code == kind.code
    assert exception.linked_exception is error
    assert exception.__cause__ is error


def test_codes_tell_errors_apart() -> None:
    codes = [each.code for each in ERRORS]
    assert len(set(codes)) == len(codes)
    assert all(code.startswith("PYJMS-") for code in codes)


def test_within_the_context_an_error_is_mapped() -> None:
    error = ResourceError("no memory")
    with pytest.raises(pyjms.ResourceAllocationException) as caught, mapped_errors:
        raise error
    assert caught.value.linked_exception is error


@pytest.mark.parametrize("other", [ValueError("x"), JMSException("y"), KeyboardInterrupt()])
def test_within_the_context_other_errors_pass(other: BaseException) -> None:
    with pytest.raises(type(other)) as caught, mapped_errors:
        raise other
    assert caught.value is other


def test_without_an_error_the_context_does_nothing() -> None:
    reached = False
    with mapped_errors:
        reached = True
    assert reached


@pytest.mark.realises("BOIL-EXC-6")
def test_a_selector_error_keeps_its_caret() -> None:
    reason = to_jms(InvalidSelectorError("unexpected text", "price >", 7)).message
    assert reason is not None
    *_, text, caret = reason.splitlines()
    assert text.index("price >") + 7 == caret.index("^")
