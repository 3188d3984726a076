"""Faults in contexts: their making and life, what they make, their transactions, and XA (20.8, 20.9, 20.13)."""

from __future__ import annotations

from pyjms.errors import (
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSSecurityException,
    TransactionInProgressException,
)
from tests.tck.broken.mutation import body, edit, entry, mutant

__all__ = ["MUTANTS"]

_CONTEXT = "pyjms.runtime.context:JmsContext."
_MODULE = "pyjms.runtime.context:"
_MAPPED = "pyjms.runtime.error_mapping:_RUNTIME"
_XA = "pyjms.runtime.xa:"


MUTANTS = (
    # exceptions that are told as the root of all
    mutant(
        "20.8-d 20.13-b",
        "refused credentials are any JMSRuntimeException of contexts",
        entry(_MAPPED, JMSSecurityException),
    ),
    mutant(
        "20.8-l",
        "a client identifier in use is any JMSRuntimeException",
        entry(_MAPPED, InvalidClientIDException),
    ),
    mutant(
        "20.8-h 20.8-l 20.8-p 20.9-h 20.10-g 20.12-k",
        "a wrong state is any JMSRuntimeException",
        entry(_MAPPED, IllegalStateException),
    ),
    mutant(
        "20.9-j 20.9-k 20.10-d 20.10-h 20.10-k 20.10-n 20.11-g",
        "an invalid destination is any JMSRuntimeException",
        entry(_MAPPED, InvalidDestinationException),
    ),
    mutant(
        "20.9-j 20.10-d 20.10-h 20.10-k 20.10-n",
        "an invalid selector is any JMSRuntimeException",
        entry(_MAPPED, InvalidSelectorException),
    ),
    mutant(
        "20.13-e",
        "the commit of an XA context is any JMSRuntimeException",
        entry(_MAPPED, TransactionInProgressException),
        durable=True,
    ),
    mutant(
        "20.8-c 20.8-d 20.13-b",
        "a context that cannot be made raises the exceptions of the classic API",
        body("pyjms.runtime.error_mapping:_RuntimeErrors.__exit__", "return None"),
    ),
    # 20.8 making contexts, and their life
    mutant(
        "20.8-a",
        "a context without a mode acknowledges by the client",
        edit(
            _MODULE + "sort_context_arguments",
            "AcknowledgeMode.AUTO_ACKNOWLEDGE if",
            "AcknowledgeMode.CLIENT_ACKNOWLEDGE if",
        ),
    ),
    mutant(
        "20.8-b 20.8-o",
        "a context ignores its mode",
        edit(_MODULE + "sort_context_arguments", "else context_mode(mode)", "else AcknowledgeMode.AUTO_ACKNOWLEDGE"),
    ),
    mutant(
        "20.8-c",
        "an unknown mode is that of automatic acknowledgement",
        edit(
            _MODULE + "context_mode",
            "return session_mode(session_mode=given)",
            "return session_mode(session_mode=given if given in (0, 1, 2, 3) else 1)",
        ),
    ),
    mutant(
        "20.8-f",
        "a second context has the mode of the first",
        edit(_CONTEXT + "open_context", "context_mode(session_mode)", "self._mode"),
    ),
    mutant(
        "20.8-f",
        "a second context shares the session, too",
        edit(_CONTEXT + "open_context", "return kind(self._shared.share(), mode)", "return self"),
    ),
    mutant(
        "20.8-g",
        "the connection of contexts ends with the first of them",
        edit(_MODULE + "SharedConnection.release", "not self._users", "True"),
    ),
    mutant(
        "20.8-g",
        "the connection of contexts never ends",
        edit(_MODULE + "SharedConnection.release", "if is_last", "if is_last is None"),
    ),
    mutant(
        "20.8-h",
        "a closed context is not noticed",
        edit(_CONTEXT + "_check_open", "if self._is_closed", "if self is None"),
    ),
    mutant(
        "20.8-i 20.8-a",
        "no consumer starts a context",
        edit(_CONTEXT + "_started", "if self._auto_start", "if self is None"),
    ),
    mutant("20.8-j", "each consumer starts its context", edit(_CONTEXT + "_started", "if self._auto_start", "if self")),
    mutant("20.8-k", "a context is not stopped", edit(_CONTEXT + "stop", "self._connection.stop()", "pass")),
    mutant(
        "20.8-l",
        "a context forgets its client identifier",
        edit(_CONTEXT + "client_id", "return self._connection.client_id", "return None"),
    ),
    mutant(
        "20.8-m",
        "a context returns another exception listener than it was given",
        edit(
            _CONTEXT + "exception_listener.fset",
            "self._connection.exception_listener = listener",
            "self._connection.exception_listener = lambda error: listener(error)",
        ),
    ),
    mutant(
        "20.8-n",
        "a context tells the version of JMS 1.1",
        edit("pyjms.runtime.connection:JmsConnectionMetaData.jms_major_version", "return 2", "return 1"),
    ),
    mutant(
        "20.8-o",
        "a transacted context does not say so",
        edit(_CONTEXT + "transacted", "return self._mode is AcknowledgeMode.SESSION_TRANSACTED", "return False"),
    ),
    # 20.9 messages, transactions and acknowledgement
    mutant(
        "20.9-a",
        "a context makes text messages without their text",
        edit(_CONTEXT + "create_text_message", ".create_text_message(text)", ".create_text_message()"),
    ),
    mutant(
        "20.9-b",
        "a context misnames queues",
        edit(_CONTEXT + "create_queue", "create_queue(queue_name)", "create_queue(queue_name + '2')"),
    ),
    mutant(
        "20.9-b",
        "a context misnames topics",
        edit(_CONTEXT + "create_topic", "create_topic(topic_name)", "create_topic(topic_name + '2')"),
    ),
    mutant(
        "20.9-c",
        "a temporary queue of a context is gone at once",
        edit(
            _CONTEXT + "create_temporary_queue",
            "return self._opened().create_temporary_queue()",
            "made = self._opened().create_temporary_queue(); made.delete(); return made",
        ),
    ),
    mutant("20.9-d", "a context commits nothing", edit(_CONTEXT + "commit", ".commit()", "")),
    mutant(
        "20.9-e", "a context commits in place of a rollback", edit(_CONTEXT + "rollback", ".rollback()", ".commit()")
    ),
    mutant("20.9-f", "a context recovers nothing", edit(_CONTEXT + "recover", ".recover()", "")),
    mutant("20.9-g", "a context acknowledges nothing", edit(_CONTEXT + "acknowledge", ".acknowledge()", "")),
    mutant(
        "20.9-g",
        "a transacted context commits when it shall acknowledge",
        edit(
            _CONTEXT + "acknowledge",
            "self._opened().acknowledge()",
            "self._opened().commit() if self.transacted else self._opened().acknowledge()",
        ),
    ),
    mutant(
        "20.9-h",
        "a recover of a transacted context has no effect",
        edit(_CONTEXT + "recover", "self._opened().recover()", "self.transacted or self._opened().recover()"),
    ),
    mutant(
        "20.9-i",
        "a browser of a context shows nothing",
        edit(_CONTEXT + "create_browser", "(queue, message_selector)", "(queue, 'FALSE')"),
    ),
    mutant(
        "20.9-i 20.9-j",
        "a browser of a context ignores its selector",
        edit(_CONTEXT + "create_browser", "(queue, message_selector)", "(queue)"),
    ),
    mutant("20.9-k", "a context ends no subscription", edit(_CONTEXT + "unsubscribe", ".unsubscribe(name)", "")),
    # 20.13 XA
    mutant(
        "20.13-a",
        "an XA context is a transacted context",
        edit(
            _XA + "XAConnectionFactory.create_xa_context",
            "self.open_xa_context(JmsXAContext, user_name, password)",
            "self.open_context(JmsContext, user_name, password, 0)",
        ),
        durable=True,
    ),
    mutant(
        "20.13-b",
        "an XA context ignores the user",
        edit(
            _XA + "XAConnectionFactory.create_xa_context",
            "JmsXAContext, user_name, password",
            "JmsXAContext, None, None",
        ),
    ),
    mutant(
        "20.13-d",
        "an XA context is no context",
        edit(_XA + "JmsXAContext.context", "return self", "return None"),
        durable=True,
    ),
    mutant(
        "20.13-f",
        "the XAResource of a context is that of another session",
        edit(
            _XA + "JmsXAContext.xa_resource",
            "return session.xa_resource",
            "return self._connection.open_session(JmsXASession, True, AcknowledgeMode.SESSION_TRANSACTED).xa_resource",
        ),
        durable=True,
    ),
)
