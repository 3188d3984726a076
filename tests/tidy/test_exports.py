"""The public names are those of JMS 1.1 and 2.0 and a short list of others: none is lost, none slips in."""

from __future__ import annotations

import json
from typing import Any

import pyjms
from tests.tidy.source import ROOT

SPECIFICATION = ROOT / "tests" / "data" / "spec" / "jms11-api.json"

# Public names that JMS 1.1 does not have, with the reason for each.
EXTRAS = {
    "AcknowledgeMode": "the constants of Session as an enumeration",
    "CompletionListener": "JMS 2.0 has it, for asynchronous sends",
    "Enumeration": "java.util.Enumeration, which JMS methods return",
    "ExceptionListenerLike": "what setExceptionListener takes: a listener or a plain callable",
    "InitialContext": "javax.naming.InitialContext, the usual way to administered objects",
    "MessageListenerLike": "what setMessageListener takes: a listener or a plain callable",
    "NameNotFoundException": "javax.naming.NameNotFoundException: InitialContext does not know the name",
    "NamingException": "javax.naming.NamingException: InitialContext cannot read its environment",
    "NoSuchElementException": "java.util.NoSuchElementException, which Enumeration.nextElement raises",
    "Runnable": "java.lang.Runnable, which Session is",
    "defer_signals": "which signals wait for the end of a call, as Java has no handlers that raise in the midst of one",
    "XAException": "javax.transaction.xa.XAException, which XAResource raises",
    "XAResource": "javax.transaction.xa.XAResource, which XASession returns",
    "Xid": "javax.transaction.xa.Xid, which XAResource takes",
}

# The types that JMS 2.0 added, but for its annotations, which are for containers.
OF_JMS_2 = {
    "IllegalStateRuntimeException",
    "InvalidClientIDRuntimeException",
    "InvalidDestinationRuntimeException",
    "InvalidSelectorRuntimeException",
    "JMSConsumer",
    "JMSContext",
    "JMSProducer",
    "JMSRuntimeException",
    "JMSSecurityRuntimeException",
    "MessageFormatRuntimeException",
    "MessageNotWriteableRuntimeException",
    "ResourceAllocationRuntimeException",
    "TransactionInProgressRuntimeException",
    "TransactionRolledBackRuntimeException",
    "XAJMSContext",
}


def specified_names() -> set[str]:
    """Return the types of JMS 1.1, and the Java run-time exceptions that it names."""
    specification: dict[str, Any] = json.loads(SPECIFICATION.read_text(encoding="utf-8"))
    exceptions = specification["java_runtime_exceptions_named_by_the_specification"]
    return {entry["name"] for entry in specification["types"]} | {entry["python"] for entry in exceptions}


def test_the_public_names_are_those_of_the_specification_and_the_extras() -> None:
    assert set(pyjms.__all__) == specified_names() | OF_JMS_2 | set(EXTRAS)


def test_each_public_name_is_there_once() -> None:
    assert len(pyjms.__all__) == len(set(pyjms.__all__))
    assert [name for name in pyjms.__all__ if not hasattr(pyjms, name)] == []


def test_no_other_name_is_public() -> None:
    modules = {
        "aio",
        "api",
        "cli",
        "commands",
        "demo",
        "errors",
        "flows",
        "forwarding",
        "history",
        "jndi",
        "joining",
        "kombu",
        "messages",
        "porting",
        "recoverable",
        "routing",
        "runtime",
        "spark",
        "spi",
        "telemetry",
        "testing",
        "types",
    }
    public = {name for name in vars(pyjms) if name.isidentifier() and not name.startswith("_")}
    assert public - set(pyjms.__all__) <= modules
