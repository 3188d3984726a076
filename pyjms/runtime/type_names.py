"""Symbolic JMS types: names that programs use, and an administrator maps to the types of the message system (JMS 1.1 §3.4.8).

A provider around another one translates at the SPI: names to types in messages that are sent and in selectors, and back in messages that are received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from pyjms.errors import IllegalArgumentException
from pyjms.spi.delegating import DelegatingConnection, DelegatingConsumer, DelegatingSession
from pyjms.spi.delivery import ELSEWHERE, Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    Provider,
    ProviderConnection,
    ProviderConsumer,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.selector import Selector, compile_selector, quote
from pyjms.spi.url import ProviderUrl

__all__ = ["NamedTypesProvider", "TypeNames"]

_JMS_TYPE: Final = "JMSType"


class TypeNames:
    """The mapping of names to types, one to one. Immutable."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = dict(types)
        self._names = {each: name for name, each in types.items()}

    @classmethod
    def read(cls, value: object) -> TypeNames | None:
        """Return the names in a mapping, or in a text ``NAME=TYPE, NAME=TYPE``; None: there are none. Raises IllegalArgumentException."""
        if not value:
            return None
        pairs: list[Any]
        if isinstance(value, str):
            pairs = [tuple(map(str.strip, each.partition("=")[::2])) for each in value.split(",") if each.strip()]
        elif isinstance(value, Mapping):
            pairs = list(value.items())
        else:
            pairs = [("", value)]
        for name, kind in pairs:
            if not (isinstance(name, str) and name and isinstance(kind, str) and kind):
                raise IllegalArgumentException(
                    "jms_types maps names to types, in a mapping of texts, or as NAME=TYPE, NAME=TYPE in one text; "
                    f"{name!r} → {kind!r} is no such pair"
                )
        for place, what in ((0, "name"), (1, "type")):
            told = [pair[place] for pair in pairs]
            twice = next((each for each in told if told.count(each) > 1), None)
            if twice is not None:
                raise IllegalArgumentException(
                    f"jms_types has the {what} {twice!r} twice; names and types belong together one to one"
                )
        return cls(dict(pairs))

    def type_of(self, name: str | None) -> str | None:
        """Return the type that a name stands for; a text that is no name stands for itself."""
        return name if name is None else self._types.get(name, name)

    def name_of(self, kind: str | None) -> str | None:
        """Return the name of a type; a type without a name is its own."""
        return kind if kind is None else self._names.get(kind, kind)

    def selector(self, selector: Selector | None) -> Selector | None:
        """Return the selector that chooses by types the messages that `selector` chooses by names. Raises `InvalidSelectorError` if it is too long."""
        if selector is None or _JMS_TYPE not in selector.identifiers:
            return selector
        # The syntax tree is imported only by programs with such selectors (decision 0401).
        from pyjms.spi.selector.nodes import walk

        changes = [found for node in walk(selector.root) for found in self._changes(node, selector.text)]
        text = selector.text
        # From the end on, so that the places of the others stay right. No two overlap.
        for start, end, new in sorted(changes, reverse=True):
            text = f"{text[:start]}{new}{text[end:]}"
        return compile_selector(text) if changes else selector

    def _changes(self, node: object, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and new text of the parts of a clause that depend on names."""
        from pyjms.spi.selector.nodes import Comparison, Identifier, In, Like, String

        match node:
            case (
                Comparison(left=Identifier(name="JMSType"), right=String() as literal)
                | Comparison(left=String() as literal, right=Identifier(name="JMSType"))
            ):
                yield from self._literals([literal])
            case In(operand=Identifier(name="JMSType"), items=items):
                yield from self._literals(each for each in items if isinstance(each, String))
            case Like(operand=Identifier(name="JMSType")):
                matched = compile_selector(text[node.start : node.end])
                kinds = [kind for name, kind in self._types.items() if matched.matches(_of_type(name))]
                yield node.start, node.end, self._either(_among(kinds), text[node.start : node.end])
            case Comparison(operator=operator, left=Identifier(name=left), right=Identifier(name=right)) if (
                left != right and _JMS_TYPE in {left, right}
            ):
                other = right if left == _JMS_TYPE else left
                pairs = [
                    f"({_among([kind])} AND {other} {operator} {quote(name)})" for name, kind in self._types.items()
                ]
                yield node.start, node.end, self._either(" OR ".join(pairs), text[node.start : node.end])

    def _literals(self, literals: Iterable[object]) -> Iterator[tuple[int, int, str]]:
        from pyjms.spi.selector.nodes import String

        for each in literals:
            if isinstance(each, String) and each.value in self._types:
                yield each.start, each.end, quote(self._types[each.value])

    def _either(self, named: str, others: str) -> str:
        """Return the condition that `named` is true of a message whose type has a name, or `others` of one whose type has none."""
        kinds = ", ".join(map(quote, self._names))
        return f"({named + ' OR ' if named else ''}({_JMS_TYPE} NOT IN ({kinds}) AND {others}))"


def _of_type(name: str) -> Envelope:
    """Return a message of that type, for a selector that reads nothing else."""
    return Envelope(
        destination=Address(AddressKind.QUEUE, ""),
        message_id=None,
        timestamp_ms=0,
        expiration_ms=0,
        delivery_mode=1,
        priority=0,
        correlation_id=None,
        reply_to=None,
        jms_type=name,
        properties={},
        body_kind=BodyKind.NONE,
        body=None,
    )


def _among(kinds: Sequence[str]) -> str:
    return f"{_JMS_TYPE} IN ({', '.join(map(quote, kinds))})" if kinds else ""


class NamedTypesProvider(Provider):
    """Connects through `inner`, and translates types for its connections."""

    def __init__(self, inner: Provider, names: TypeNames) -> None:
        self._inner = inner
        self._names = names

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        return _Connection(self._inner.connect(request, events), self._names)

    def check_url(self, url: ProviderUrl) -> None:
        self._inner.check_url(url)

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        return self._inner.login_places(url)

    def stop_broker(self, url: ProviderUrl) -> None:
        self._inner.stop_broker(url)


class _Connection(DelegatingConnection):
    def __init__(self, inner: ProviderConnection, names: TypeNames) -> None:
        super().__init__(inner)
        self._names = names

    def open_session(self, *, transacted: bool) -> ProviderSession:
        return _Session(self.inner.open_session(transacted=transacted), self._names)


class _Session(DelegatingSession):
    def __init__(self, inner: ProviderSession, names: TypeNames) -> None:
        super().__init__(inner)
        self._names = names

    def send(self, envelope: Envelope) -> None:
        self._inner.send(self._typed(envelope))

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        self._inner.send_async(self._typed(envelope), done)

    def may_wait(self, envelope: Envelope) -> bool:
        return self._inner.may_wait(self._typed(envelope))

    def _typed(self, envelope: Envelope) -> Envelope:
        kind = self._names.type_of(envelope.jms_type)
        return envelope if kind == envelope.jms_type else replace(envelope, jms_type=kind)

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        chosen = replace(request, selector=self._names.selector(request.selector))
        return _Consumer(self._inner.subscribe(chosen, on_ready), self._names)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        found = self._inner.browse(address, self._names.selector(selector))
        return (_named(each, self._names) for each in found)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.acknowledge(_inner_of(deliveries))

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.recover(_inner_of(deliveries))

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.give_back_unseen(_inner_of(deliveries))

    def retry(self, delivery: Delivery, reason: str) -> None:
        self._inner.retry(_inner_of([delivery])[0], reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self._inner.retry_all(_inner_of(deliveries), reason)

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._inner.reject(_inner_of([delivery])[0], reason)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.adopt(_inner_of(deliveries))


class _Consumer(DelegatingConsumer):
    def __init__(self, inner: ProviderConsumer, names: TypeNames) -> None:
        super().__init__(inner)
        self._names = names

    def poll(self) -> Delivery | None:
        return self._shown(self._inner.poll())

    def poll_or_wait(self) -> Delivery | None:
        return self._shown(self._inner.poll_or_wait())

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        found = self._inner.poll_at_once()
        return found if found is ELSEWHERE else self._shown(found)

    def take_unreturned(self) -> Delivery | None:
        return self._shown(self._inner.take_unreturned())

    def _shown(self, found: Delivery | None) -> Delivery | None:
        return None if found is None else _named(found, self._names)


class _Tag:
    """The tag of a delivery whose type has a name: the delivery as the provider made it."""

    __slots__ = ("inner",)

    def __init__(self, inner: Delivery) -> None:
        self.inner = inner


def _named(found: Delivery, names: TypeNames) -> Delivery:
    """Return the delivery with the name of its message's type."""
    envelope = found.envelope
    name = names.name_of(envelope.jms_type)
    if name == envelope.jms_type:
        return found
    return Delivery(replace(envelope, jms_type=name), found.count, found.redelivered, _Tag(found))


def _inner_of(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Return the deliveries as the provider made them."""
    return [each.tag.inner if isinstance(each.tag, _Tag) else each for each in deliveries]
