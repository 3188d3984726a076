"""Ten mutants of requirements drawn by lot, written from the catalogue alone: before their tests were looked at."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, entry, mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    mutant(
        "4.4.11-d",
        "commit acknowledges all but the first message",
        edit(
            "pyjms.runtime.session:JmsSession._commit",
            "unsettled = unacked.take()",
            "taken = unacked.take()\n    unsettled = taken[1:]\n    self.provider_session.recover(taken[:1])",
        ),
    ),
    mutant(
        "3.8.1.1-l",
        "a number equals the text that shows it",
        edit(
            "pyjms.spi.selector.compile:_Writer._holds",
            "_compare(value.first, ast.Eq(), _constant(literal.value))",
            "_call(self._global(lambda found, wanted: str(found) == wanted), value.first, _constant(literal.value))",
        ),
    ),
    mutant(
        "3.11-ac",
        "write_bytes of a BytesMessage heeds no length without an offset",
        edit(
            "pyjms.messages.bodies:JmsBytesMessage.write_bytes",
            "offset, length,",
            "offset, length if offset else None,",
        ),
    ),
    mutant(
        "3.11.3-w",
        "a text with a plus sign is no number",
        edit(
            "pyjms.messages.java_text:parse_integral",
            "if not _INTEGRAL.fullmatch(text):",
            "if not _INTEGRAL.fullmatch(text) or text[0] == '+':",
        ),
    ),
    mutant(
        "7.3-c",
        "wrong credentials are accepted for queue connections",
        edit(
            "pyjms.runtime.factory:ConnectionFactory.create_queue_connection",
            "JmsQueueConnection, user_name, password",
            "JmsQueueConnection, None, None",
        ),
    ),
    mutant(
        "4.11-h",
        "create_durable_connection_consumer of a QueueConnection raises InvalidDestinationException",
        body(
            "pyjms.runtime.domains:JmsQueueConnection.create_durable_connection_consumer",
            "raise InvalidDestinationException('a queue connection has no topics')",
        ),
    ),
    mutant(
        "3.5.2-h",
        "characters of a String property that need two chars arrive as question marks",
        edit(
            "pyjms.messages.freeze:thaw",
            "= envelope.properties ",
            "= {name: ''.join(each if ord(each) < 0x10000 else '?' for each in value) if type(value) is str else value "
            "for name, value in envelope.properties.items()} ",
        ),
    ),
    mutant(
        "3.11.3-p",
        "a double without fraction is written without a point",
        entry("pyjms.messages.conversion:STRING._converters", float, lambda value: repr(value).removesuffix(".0")),
    ),
    mutant(
        "3.5.2-c",
        "the smallest short arrives as the next one",
        body(
            "pyjms.messages.base:Properties.get_short_property",
            "return Short(max(-32767, SHORT.read(self._get(name), _WHAT, name)))",
        ),
    ),
    mutant(
        "3.2-b",
        "a tuple in an ObjectMessage arrives as a list",
        edit(
            "pyjms.messages.bodies:JmsObjectMessage.object",
            "return pickle.loads(body.data)",
            "found = pickle.loads(body.data)\n            return list(found) if isinstance(found, tuple) else found",
        ),
    ),
)
