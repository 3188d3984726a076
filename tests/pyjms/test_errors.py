from __future__ import annotations

import copy
import io
import pickle
import traceback
from typing import Any

import pytest

import pyjms
from pyjms import errors

JMS = [found for name in errors.__all__ if issubclass(found := getattr(errors, name), errors.JMSException)]
JAVA = {
    "IllegalArgumentException": ValueError,
    "IndexOutOfBoundsException": IndexError,
    "NullPointerException": TypeError,
    "NumberFormatException": ValueError,
    "UnsupportedOperationException": NotImplementedError,
}
RUNTIME = [found for name in errors.__all__ if issubclass(found := getattr(errors, name), errors.JMSRuntimeException)]
CHECKED = [*JMS, pyjms.NamingException, pyjms.NameNotFoundException, pyjms.XAException]
UNCHECKED = [*(getattr(pyjms, name) for name in JAVA), pyjms.NoSuchElementException]
EVERY_JMS_EXCEPTION = pytest.mark.parametrize("kind", JMS, ids=lambda kind: kind.__name__)
EVERY_RUNTIME_EXCEPTION = pytest.mark.parametrize("kind", RUNTIME, ids=lambda kind: kind.__name__)


@pytest.mark.realises("BOIL-EXC-1")
def test_jms_exception_is_the_root_of_all_that_are_checked_in_java() -> None:
    others = {name for name in errors.__all__ if getattr(errors, name) not in [*JMS, *RUNTIME]}
    assert others == set(JAVA)
    assert all(kind.__mro__[1] is errors.JMSException for kind in JMS if kind is not errors.JMSException)
    assert len(JMS) == 13


@EVERY_JMS_EXCEPTION
def test_the_reason_and_the_code_can_be_read_under_both_names(kind: Any) -> None:
    error = kind("the queue is full", "FULL-7")
    assert str(error) == error.message == error.getMessage() == "the queue is full"
    assert error.error_code == error.getErrorCode() == "FULL-7"
    assert error.linked_exception is error.getLinkedException() is None


@EVERY_JMS_EXCEPTION
def test_all_arguments_may_be_left_out(kind: Any) -> None:
    assert (str(kind()), kind().message, kind().error_code) == ("", None, None)
    assert (str(kind("why")), kind("why").error_code) == ("why", None)
    assert kind(reason="why", error_code="E").getErrorCode() == "E"


@EVERY_JMS_EXCEPTION
def test_the_code_can_only_be_read(kind: Any) -> None:
    error = kind("why")
    with pytest.raises(AttributeError):
        error.error_code = "E"
    assert not hasattr(error, "setErrorCode")


@EVERY_JMS_EXCEPTION
def test_a_linked_exception_can_be_given_with_the_reason(kind: Any) -> None:
    cause = OSError("disk full")
    assert kind("why", "E", cause).linked_exception is cause
    assert kind("why", "E", linked_exception=cause).getLinkedException() is cause
    assert kind("why", "E", None).linked_exception is None


def test_the_root_of_the_simplified_api_is_a_run_time_exception_and_no_jms_exception() -> None:
    assert issubclass(errors.JMSRuntimeException, RuntimeError)
    assert not issubclass(errors.JMSRuntimeException, errors.JMSException)
    assert all(
        kind.__mro__[1] is errors.JMSRuntimeException for kind in RUNTIME if kind is not errors.JMSRuntimeException
    )
    assert len(RUNTIME) == 11


@EVERY_RUNTIME_EXCEPTION
def test_a_run_time_exception_of_jms_has_reason_code_and_cause(kind: Any) -> None:
    cause = OSError("disk full")
    error = kind("the queue is full", "FULL-7", cause)
    assert str(error) == error.message == error.getMessage() == error.get_message() == "the queue is full"
    assert error.error_code == error.getErrorCode() == "FULL-7"
    assert error.__cause__ is error.get_cause() is error.getCause() is cause
    assert error.toString() == f"{kind.__name__}: the queue is full"
    named = kind(detail_message="why", error_code="E", cause=cause)
    assert (named.message, named.error_code, named.get_cause()) == ("why", "E", cause)
    with pytest.raises(AttributeError):
        error.error_code = "E"


@EVERY_RUNTIME_EXCEPTION
def test_code_and_cause_of_a_run_time_exception_of_jms_may_be_left_out(kind: Any) -> None:
    assert (kind("why").message, kind("why").error_code, kind("why").get_cause()) == ("why", None, None)
    assert (kind("why", "E").error_code, kind("why", "E").getCause()) == ("E", None)
    assert (kind(None).message, str(kind(None)), kind("why", None, None).error_code) == (None, "", None)


@pytest.mark.parametrize(
    "kind", [errors.MessageNotWriteableRuntimeException, errors.ResourceAllocationRuntimeException]
)
def test_two_of_them_also_call_the_message_their_reason(kind: Any) -> None:
    error = kind(reason="why", error_code="E")
    assert (error.message, error.error_code) == ("why", "E")


@EVERY_RUNTIME_EXCEPTION
def test_a_copy_of_a_run_time_exception_of_jms_keeps_reason_and_code(kind: Any) -> None:
    for copied in (pickle.loads(pickle.dumps(kind("why", "E"))), copy.copy(kind("why", "E"))):
        assert type(copied) is kind
        assert (copied.message, copied.error_code) == ("why", "E")


def test_a_linked_exception_is_the_cause() -> None:
    cause = OSError("disk full")
    error = pyjms.JMSException("cannot keep the message")
    error.setLinkedException(cause)
    assert error.__cause__ is error.linked_exception is error.getLinkedException() is cause
    assert error.getCause() is cause
    error.linked_exception = None
    assert error.__cause__ is error.getCause() is None


def test_a_cause_is_a_linked_exception() -> None:
    cause = OSError("disk full")
    with pytest.raises(pyjms.JMSException) as raised:
        raise pyjms.JMSException("cannot keep the message") from cause
    assert raised.value.getLinkedException() is cause
    assert "disk full" in "".join(traceback.format_exception(raised.value))


@EVERY_JMS_EXCEPTION
def test_a_copy_keeps_reason_and_code(kind: Any) -> None:
    error = kind("why", "E")
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is kind
        assert (copied.message, copied.error_code) == ("why", "E")


@pytest.mark.parametrize(("name", "base"), JAVA.items())
def test_a_run_time_exception_of_java_is_one_of_python(name: str, base: type[Exception]) -> None:
    kind = getattr(pyjms, name)
    assert issubclass(kind, base)
    assert not issubclass(kind, pyjms.JMSException)
    with pytest.raises(base, match="why"):
        raise kind("why")


def test_a_number_format_is_an_illegal_argument_as_in_java() -> None:
    assert issubclass(pyjms.NumberFormatException, pyjms.IllegalArgumentException)


@pytest.mark.parametrize("kind", [*CHECKED, *UNCHECKED], ids=lambda kind: kind.__name__)
def test_what_a_catch_block_calls_is_there(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    error = kind("why")
    assert error.getMessage() == str(error) == "why"
    assert error.toString() == error.to_string() == f"{kind.__name__}: why"
    assert error.getCause() is error.get_cause() is None
    error.__cause__ = OSError("disk full")
    assert error.getCause() is error.__cause__
    written = io.StringIO()
    error.printStackTrace(written)
    assert "OSError: disk full" in written.getvalue()
    assert written.getvalue().endswith(f"{kind.__name__}: why\n")
    error.print_stack_trace()
    assert capsys.readouterr().err == written.getvalue()


@pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.__name__)
def test_the_reason_of_what_java_has_callers_catch_is_a_property(kind: Any) -> None:
    error = kind("why")
    assert error.message == "why"
    assert not hasattr(error, "get_message")


@pytest.mark.parametrize("kind", UNCHECKED, ids=lambda kind: kind.__name__)
def test_the_reason_of_a_run_time_exception_of_java_is_a_method(kind: Any) -> None:
    assert kind("why").get_message() == "why"
    assert not hasattr(kind("why"), "message")


@pytest.mark.parametrize("base", UNCHECKED, ids=lambda base: base.__name__)
def test_a_subclass_of_a_run_time_exception_may_have_a_field_for_its_message(base: Any) -> None:
    class OrderError(base):  # type: ignore[misc]
        def __init__(self, message: str) -> None:
            super().__init__("why")
            self.message = message

    class StaleError(base):  # type: ignore[misc]
        message = "stale"

        def getMessage(self) -> str:
            return f"{self.message}: {super().getMessage()}"

    error = OrderError("no cups")
    assert (error.message, error.getMessage(), error.toString()) == ("no cups", "why", "OrderError: why")
    assert StaleError("why").getMessage() == StaleError("why").get_message() == "stale: why"


def test_an_error_without_a_reason_is_the_name_of_its_class() -> None:
    assert (pyjms.JMSException().toString(), pyjms.NullPointerException().getMessage()) == ("JMSException", None)
    assert pyjms.XAException(pyjms.XAException.XA_RBTIMEOUT).toString() == "XAException: XA error 106"


@pytest.mark.parametrize("base", [pyjms.JMSException, pyjms.NullPointerException])
def test_a_subclass_may_have_a_field_for_its_cause(base: Any) -> None:
    class OrderError(base):  # type: ignore[misc]
        def __init__(self, cause: str) -> None:
            super().__init__("why")
            self.cause = cause

    error: Any = OrderError("the till")
    assert (error.cause, error.getCause()) == ("the till", None)
    error.__cause__ = OSError("disk full")
    assert error.getCause() is error.__cause__
