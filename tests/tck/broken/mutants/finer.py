"""Ten more mutants that were written from the catalogue alone, before their tests were looked at: faults of one case only."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, mutant

__all__ = ["MUTANTS"]

_HOST = "pyjms_provider.core.host.virtual_host:VirtualHost."

MUTANTS = (
    mutant(
        "3.4.9-a",
        "a time-to-live beyond 31 bits is cut",
        edit(
            "pyjms.runtime.producer:JmsMessageProducer._send",
            "min(now_ms + time_to_live, Long.maximum)",
            "now_ms + min(time_to_live, 2**31 - 1)",
        ),
    ),
    mutant(
        "6.11.1-b",
        "a durable subscription stays when its topic changes",
        edit(
            "pyjms_provider.core.host.virtual_host:HostSubscriptions._subscribe_durably",
            "subscription.terms.is_same(terms)",
            "(subscription.terms.selector_text, subscription.terms.no_local) == (terms.selector_text, terms.no_local)",
        ),
    ),
    mutant(
        "4.4.11-e",
        "acknowledge covers the messages of one destination",
        edit(
            "pyjms.runtime.session:JmsSession.acknowledge",
            "deliveries = self.unacked.take()",
            "taken = self.unacked.take()\n"
            "    deliveries = [each for each in taken if each.envelope.destination == message.jms_destination.address]\n"
            "    self.unacked.requeue([each for each in taken if each not in deliveries])",
        ),
    ),
    mutant(
        "4.4.7-a",
        "a transaction publishes at once",
        edit(
            "pyjms_provider.clients.vm:VmSession.send",
            "if self._transacted else",
            "if self._transacted and envelope.destination.kind.name == 'QUEUE' else",
        ),
    ),
    mutant(
        "3.8.1.1-ab",
        "a line end does not match %",
        edit("pyjms.spi.selector.compile:compile_pattern", "if any(None in piece for piece in pieces):", "if True:"),
        edit("pyjms.spi.selector.compile:_expression", "(?s:", "(?:"),
    ),
    mutant(
        "3.8.1.1-ag",
        "a negative quotient of integers is rounded down",
        body("pyjms.spi.selector.arithmetic:_divide_whole", "return left // right if right else None"),
    ),
    mutant(
        "3.11-p",
        "read_bytes of a StreamMessage ends with 0 after a buffer that was just filled",
        edit(
            "pyjms.messages.bodies:JmsStreamMessage.read_bytes",
            "if self._taken == len(field):",
            "if self._taken == len(field) > 0:\n"
            "        self._leave_field()\n"
            "        return 0\n"
            "    if self._taken == len(field):",
        ),
    ),
    mutant(
        "3.11-aa",
        "write_utf writes a zero character as one byte",
        edit("pyjms.messages.java_text:encode_modified_utf8", ' and "\\0" not in text', ""),
        edit("pyjms.messages.java_text:encode_modified_utf8", '.replace(b"\\0", b"\\xc0\\x80")', ""),
    ),
    mutant(
        "4.3.2-d",
        "a client identifier stays in use when its connection is closed",
        edit(_HOST + "end_connection", "del self._client_ids[client_id]", "pass"),
    ),
    mutant(
        "3.4.3-b",
        "sessions of a connection give the same message ids",
        edit("pyjms.runtime.session:JmsSession.__init__", "{connection.next_number()}", "1"),
    ),
)
