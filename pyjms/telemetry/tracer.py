"""Spans by OpenTelemetry's conventions for messaging, and their context in message properties.

The names of properties are those that OpenTelemetry's instrumentation of Java's JMS uses: the propagator's own, ``traceparent`` and
``tracestate`` for W3C Trace Context, with ``__dash__`` for a dash, which no JMS property name may have (JMS 1.1 §3.5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from pyjms.api.message import Message
from pyjms.errors import JMSException
from pyjms.messages.destinations import address_of
from pyjms.runtime.tracing import MessageTracer, current_tracer
from pyjms.spi.envelope import Address
from pyjms.spi.words import installed_version

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

_DASH: Final = "__dash__"
_NAME: Final = "pyjms"


class _PropertySetter(Setter[dict[str, str]]):
    def set(self, carrier: dict[str, str], key: str, value: str) -> None:
        carrier[key.replace("-", _DASH)] = value


class _PropertyGetter(Getter[Message]):
    def get(self, carrier: Message, key: str) -> list[str] | None:
        try:
            value = carrier.get_string_property(key.replace("-", _DASH))
        except JMSException:
            return None  # an application's own property of that name, of another type
        return None if value is None else [value]

    def keys(self, carrier: Message) -> list[str]:
        return [name.replace(_DASH, "-") for name in carrier.property_names]


_SETTER: Final = _PropertySetter()
_GETTER: Final = _PropertyGetter()


def carried_context(message: Message) -> Context:
    """Return the context that a message carries."""
    # The context is empty at first: otherwise a message without one would seem to come from the span that is open here.
    return propagate.extract(message, context=Context(), getter=_GETTER)


class OpenTelemetryTracer(MessageTracer):
    """Makes the spans."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """`provider`: the source of spans; None: the global one, also if it is set later."""
        self.tracer: Tracer = trace.get_tracer(_NAME, installed_version(), tracer_provider=provider)

    @contextmanager
    def sending(self, address: Address, message: Message) -> Iterator[Mapping[str, str]]:
        """Make a span of the kind PRODUCER; the message carries its context."""
        with self._span("send", address, SpanKind.PRODUCER) as span:
            added: dict[str, str] = {}
            propagate.inject(added, setter=_SETTER)
            yield added
            # The span is described after the send, which gives the message its id.
            _describe(span, message)

    def begin_sending(
        self, address: Address, message: Message
    ) -> tuple[Mapping[str, str], Callable[[Exception | None], None]]:
        """Make a span of the kind PRODUCER that ends with the outcome; the message carries its context."""
        span = self.tracer.start_span(
            f"send {address.name}", kind=SpanKind.PRODUCER, attributes=_attributes("send", address, None)
        )
        added: dict[str, str] = {}
        propagate.inject(added, context=trace.set_span_in_context(span), setter=_SETTER)

        def ended(error: Exception | None) -> None:
            if error is None:
                _describe(span, message)
            else:
                _fail(span, error)
            span.end()

        return added, ended

    @contextmanager
    def receiving(self, address: Address, subscription_name: str | None) -> Iterator[Callable[[Message | None], None]]:
        """Make a span of the kind CLIENT that is linked with the message's send; none if no message was received."""
        attributes = _attributes("receive", address, subscription_name)
        span = self.tracer.start_span(f"receive {address.name}", kind=SpanKind.CLIENT, attributes=attributes)

        def got(message: Message | None) -> None:
            if message is None:
                return  # a span that is not ended is not exported
            # The trace is linked, not continued: the span of the receive started before there was a message.
            link = trace.get_current_span(carried_context(message)).get_span_context()
            if link.is_valid:
                span.add_link(link)
            _describe(span, message)
            span.end()

        try:
            yield got
        except Exception as error:
            _fail(span, error)
            span.end()
            raise

    @contextmanager
    def processing(self, address: Address, message: Message, subscription_name: str | None = None) -> Iterator[Span]:
        """Make a span of the kind CONSUMER that continues the trace of the message's sender."""
        context = carried_context(message)
        link = trace.get_current_span(context).get_span_context()
        links = (Link(link),) if link.is_valid else ()
        with self._span("process", address, SpanKind.CONSUMER, context, links, subscription_name) as span:
            _describe(span, message)
            yield span

    @contextmanager
    def _span(
        self,
        operation: str,
        address: Address,
        kind: SpanKind,
        context: Context | None = None,
        links: tuple[Link, ...] = (),
        subscription_name: str | None = None,
    ) -> Iterator[Span]:
        # OpenTelemetry's conventions for messaging name a span by the operation and the destination.
        name, attributes = f"{operation} {address.name}", _attributes(operation, address, subscription_name)
        with self.tracer.start_as_current_span(
            name,
            context=context,
            kind=kind,
            attributes=attributes,
            links=links,
            # `_fail` does both, with the error's type; OpenTelemetry would record the error a second time.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                _fail(span, error)
                raise


@contextmanager
def process_span(message: Message) -> Iterator[object]:
    """Make a span for the work on a message, by the installed tracer, or by the global one."""
    found = current_tracer()
    tracer = found if isinstance(found, OpenTelemetryTracer) else OpenTelemetryTracer()
    destination = message.jms_destination
    if destination is None:
        yield None
        return
    with tracer.processing(address_of(destination), message) as span:
        yield span


def _attributes(operation: str, address: Address, subscription_name: str | None) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "messaging.system": "jms",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": address.name,
    }
    if address.temporary:
        found["messaging.destination.temporary"] = True
    if subscription_name is not None:
        found["messaging.destination.subscription.name"] = subscription_name
    return found


def _describe(span: Span, message: Message) -> None:
    # A span that is not sampled drops all attributes: nothing need be read for it.
    if not span.is_recording():
        return
    if message.jms_message_id is not None:
        span.set_attribute("messaging.message.id", message.jms_message_id)
    correlation_id = message.jms_correlation_id
    if isinstance(correlation_id, str):
        span.set_attribute("messaging.message.conversation_id", correlation_id)


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", f"{type(error).__module__}.{type(error).__qualname__}")
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))
