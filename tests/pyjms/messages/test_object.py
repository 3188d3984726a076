from __future__ import annotations

import copyreg
import datetime as dt
import os
import pickle
import sys
import types
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import MessageFormatException
from pyjms.messages.bodies import JmsObjectMessage
from pyjms.messages.freeze import freeze, thaw
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, ObjectBody
from tests.pyjms.messages.support import Context, from_elsewhere, frozen, received

SHOP = types.ModuleType("pretend_shop")
sys.modules["pretend_shop"] = SHOP  # a module that can be named in pickles


@dataclass
class Order:
    number: int
    lines: list[str] = field(default_factory=list)

    @dataclass
    class Line:
        text: str


class Drink(Enum):
    ESPRESSO = 1


for _each in (Order, Order.Line, Drink):
    _each.__module__ = "pretend_shop"
    setattr(SHOP, _each.__name__, _each)
del SHOP.Line
SHOP.os = os  # type: ignore[attr-defined]
SHOP.Decimal = Decimal  # type: ignore[attr-defined]
SHOP.types = types  # type: ignore[attr-defined]
SHOP.make_order = lambda: Order(1)  # type: ignore[attr-defined]

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


@pytest.mark.realises("BOIL-MSG-4", "BOIL-BODY-1")
@given(PLAIN)
def test_an_object_arrives(value: Any) -> None:
    message = JmsObjectMessage(value)
    assert message.object == message.getObject() == value
    assert received(message).object == value


@pytest.mark.realises("BOIL-BODY-7", "BOIL-BODY-8")
def test_objects_are_copied_in_and_out() -> None:
    order = Order(1, ["espresso"])
    message = JmsObjectMessage(order)
    order.lines.append("tea")
    taken = message.object
    assert taken == Order(1, ["espresso"])
    taken.lines.clear()
    arrived = received(message)
    assert arrived.object == message.object == Order(1, ["espresso"])
    assert arrived.object is not arrived.object


@pytest.mark.realises("BOIL-BODY-7", "BOIL-BODY-2")
def test_there_may_be_no_object() -> None:
    message = JmsObjectMessage()
    assert message.object is received(message).object is None
    message.setObject([1])
    message.setObject(None)
    assert message.object is None
    message.object = [1]
    message.clear_body()
    assert message.object is None


class Angry:
    def __reduce__(self) -> NoReturn:
        raise RuntimeError("never")


@pytest.mark.parametrize(
    "value", [lambda: 1, Angry(), open, (x for x in "a"), sys.stdout], ids=lambda v: type(v).__name__
)
def test_what_cannot_be_pickled(value: Any) -> None:
    if value is open:
        value = types.ModuleType("m")
    message = JmsObjectMessage("before")
    with pytest.raises(MessageFormatException, match="cannot be pickled") as raised:
        message.object = value
    assert raised.value.linked_exception is not None
    assert message.object == "before"


def test_a_sent_object_does_not_change_with_its_message() -> None:
    message = JmsObjectMessage([1])
    envelope = frozen(message)
    message.object = [2]
    assert isinstance(envelope.body, ObjectBody)
    assert pickle.loads(envelope.body.data) == [1]
    assert envelope.body.local


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_from_elsewhere_needs_no_trust(value: Any, protocol: int) -> None:
    if protocol >= 3:
        assert from_elsewhere(pickle.dumps(value, protocol)).object == value


def test_sets_need_no_trust() -> None:
    for value in ({1, 2}, frozenset({1}), bytearray(b"a")):
        assert from_elsewhere(pickle.dumps(value, 5)).object == value


def test_trusted_classes_from_elsewhere() -> None:
    order = Order(1, ["espresso"])
    for trusted in ("pretend_shop.Order", "pretend_shop.*"):
        assert from_elsewhere(pickle.dumps(order), trusted).object == order
    assert from_elsewhere(pickle.dumps(Order.Line("x")), "pretend_shop.Order.Line").object == Order.Line("x")
    assert from_elsewhere(pickle.dumps(Drink.ESPRESSO), "pretend_shop.Drink").object is Drink.ESPRESSO
    day = dt.date(2020, 2, 29)
    assert from_elsewhere(pickle.dumps({"day": day, "orders": [order]}), "pretend_shop.*", "datetime.date").object == {
        "day": day,
        "orders": [order],
    }


@pytest.mark.parametrize(
    "trusted",
    [
        (),
        ("pretend_shop.order",),
        ("pretend_shop",),
        ("*",),
        ("pretend_shop.Drink", "pretend_shop.Order.*"),
        ("pretend.*",),
    ],
)
def test_a_class_that_is_not_trusted_is_named(trusted: tuple[str, ...]) -> None:
    message = from_elsewhere(pickle.dumps(Order(1)), *trusted)
    with pytest.raises(
        MessageFormatException, match=r"'pretend_shop.Order', a class that is not trusted.*trusted= option"
    ):
        message.getObject()


def test_trust_is_for_objects_from_elsewhere_and_stays_with_them() -> None:
    message = from_elsewhere(pickle.dumps(Order(1)))
    forwarded = thaw(Delivery(frozen(message), 1, False, None), Context())
    with pytest.raises(MessageFormatException, match="not trusted"):
        _ = cast("JmsObjectMessage", forwarded).object
    message.clear_body()
    message.object = Order(2)
    assert message.object == Order(2)  # set here, so it is of this process


def global_(module: str, name: str) -> bytes:
    """Return pickle operations that push ``module.name``."""
    return (
        pickle.SHORT_BINUNICODE
        + bytes([len(module)])
        + module.encode()
        + pickle.SHORT_BINUNICODE
        + bytes([len(name)])
        + name.encode()
        + pickle.STACK_GLOBAL
    )


RAN: list[str] = []


def run(text: str) -> None:
    RAN.append(text)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(pickle.PROTO + b"\4" + global_("os", "system") + b"\x8c\x04true\x85R.", id="function"),
        pytest.param(b"cos\nsystem\n(S'true'\ntR.", id="protocol 0"),
        pytest.param(b"(S'true'\nios\nsystem\n.", id="INST"),
        pytest.param(b"(cos\nsystem\nS'true'\no.", id="OBJ"),
        pytest.param(
            pickle.PROTO + b"\4" + global_("pretend_shop", "os.system") + b"\x8c\x04true\x85R.", id="through a module"
        ),
        pytest.param(
            pickle.PROTO + b"\4" + global_("pretend_shop", "make_order") + b")R.", id="function of a trusted module"
        ),
        pytest.param(pickle.PROTO + b"\4" + global_("pretend_shop", "Decimal") + b")R.", id="imported class"),
        pytest.param(
            pickle.PROTO + b"\4" + global_("pretend_shop", "types.FunctionType") + b")R.", id="class through a module"
        ),
        pytest.param(pickle.PROTO + b"\4" + global_("pretend_shop", "Order.__init__") + b")R.", id="method"),
        pytest.param(
            pickle.PROTO + b"\4" + global_("pretend_shop", "Order.__init__.__globals__") + b".", id="attributes"
        ),
        pytest.param(pickle.PROTO + b"\4" + global_("pretend_shop", "Order.__class__") + b".", id="metaclass"),
        pytest.param(pickle.PROTO + b"\4" + global_("builtins", "eval") + b"\x8c\x011\x85R.", id="eval"),
        pytest.param(pickle.PROTO + b"\4" + global_("builtins", "getattr") + b".", id="getattr"),
        pytest.param(pickle.PROTO + b"\4" + global_("pretend_shop", "nothing") + b".", id="unknown name"),
        pytest.param(pickle.PROTO + b"\4" + global_("pretend_shop", "") + b".", id="empty name"),
        pytest.param(pickle.PROTO + b"\4" + global_("", "Order") + b".", id="empty module"),
        pytest.param(pickle.PROTO + b"\4" + global_("no.such.module", "X") + b".", id="unknown module"),
        pytest.param(
            pickle.PROTO + b"\4" + global_("pretend_shop", "Order") + b"}\x8c\x06number\x8c\x01xsb.", id="BUILD class"
        ),
        pytest.param(b"\x82\xf0.", id="EXT1"),
        pytest.param(b"\x83\xf0\x00.", id="EXT2"),
        pytest.param(b"\x84\xf0\x00\x00\x00.", id="EXT4"),
        pytest.param(b"P1\n.", id="PERSID"),
        pytest.param(b"I1\nQ.", id="BINPERSID"),
        pytest.param(b"\x97.", id="NEXT_BUFFER"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\x80\x7f.", id="unknown protocol"),
        pytest.param(b"I1\n", id="no end"),
        pytest.param(b".", id="empty stack"),
        pytest.param(b"g7\n.", id="unknown memo"),
        pytest.param(b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fa.", id="huge length"),
        pytest.param(b"I1\nr\xff\xff\xff\x7f0.", id="huge memo index"),
        pytest.param(pickle.dumps(Order(1))[:-5], id="cut off"),
        pytest.param(b"\xff\xff\xff", id="no pickle"),
    ],
)
def test_hostile_pickles_do_nothing(data: bytes) -> None:
    copyreg.add_extension(__name__, "run", 0xF0)
    try:
        pickle.loads(b"\x82\xf0.")  # now known by its number alone
        message = from_elsewhere(data, "pretend_shop.*", "nt.*", "posix.*", "no.such.module.*")
        with pytest.raises(MessageFormatException):
            _ = message.object
    finally:
        copyreg.remove_extension(__name__, "run", 0xF0)
    assert not RAN
    assert not hasattr(Order, "number")


def test_what_a_trusted_class_does_wrong_is_an_error_of_the_format() -> None:
    data = pickle.PROTO + b"\4" + global_("pretend_shop", "Order") + b")R."  # an Order has a number
    with pytest.raises(MessageFormatException, match="cannot be decoded") as raised:
        _ = from_elsewhere(data, "pretend_shop.*").object
    assert isinstance(raised.value.linked_exception, Exception)


def test_the_reason_stays_short() -> None:
    data = b"c" + b"x" * 100_000 + b"\ny\n."
    with pytest.raises(MessageFormatException) as raised:
        _ = from_elsewhere(data).object
    assert len(str(raised.value)) < 400


def test_an_object_may_be_sent_to_any_destination() -> None:
    topic = Address(AddressKind.TOPIC, "news")
    assert freeze(JmsObjectMessage(5), topic, None, 0, 0, 1, 4).destination == topic
