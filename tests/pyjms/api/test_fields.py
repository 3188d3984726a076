"""Classes of applications with fields that are named as in Java: the field is theirs, and the getter reads it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partialmethod
from inspect import isabstract
from typing import Any, ClassVar

import pytest

import pyjms
from pyjms import (
    JMSException,
    NamingException,
    NumberFormatException,
    ObjectMessage,
    Queue,
    ServerSession,
    Session,
    TextMessage,
    XAException,
    Xid,
)
from pyjms.api.names import Interface, hidden_method


def concrete(interface: Any, **members: Any) -> Any:
    """Return a class that implements all of `interface` that `members` leave out, with methods that return None."""
    fields = [member for name, member in interface.java_members.items() if member.getter]
    given = members.get("__annotations__", {})
    left_out = {member.python for member in fields}.union(*(member.java for member in fields if member.python in given))
    # A setter that is a method in Python, too, follows the field, as its Java name does.
    left_out |= {name for name, member in interface.java_members.items() if member.method in left_out}
    rest = {name: lambda *_: None for name in interface.__abstractmethods__ - left_out}
    return type(interface)(f"Own{interface.__name__}", (interface,), {**rest, **members, "__module__": __name__})


# ------------------------------------------------------------------------------------------------ a getter and no setter


class Served(ServerSession):
    def __init__(self, session: Any) -> None:
        self.session = session  # type: ignore[misc]

    def getSession(self) -> Any:
        return self.session

    def start(self) -> None: ...


class Lazy(ServerSession):
    """Its getter makes what the field is to hold, as many do."""

    def __init__(self) -> None:
        self.session = None  # type: ignore[misc, assignment]

    def getSession(self) -> Any:
        if self.session is None:
            self.session = "made"  # type: ignore[unreachable]
        return self.session

    def start(self) -> None: ...


class LazyWithDefault(ServerSession):
    session = None  # type: ignore[assignment]

    def getSession(self) -> Any:
        if self.session is None:
            self.session = "made"
        return self.session

    def start(self) -> None: ...


class LazySlot(ServerSession):
    __slots__ = ("session",)

    def __init__(self) -> None:
        self.session = None  # type: ignore[misc, assignment]

    def getSession(self) -> Any:
        if self.session is None:
            self.session = "made"  # type: ignore[unreachable]
        return self.session

    def start(self) -> None: ...


def test_a_field_named_as_a_getter_is_the_classes_own() -> None:
    served: Any = Served("one")
    assert vars(served) == {"session": "one"}
    assert served.session == served.getSession() == "one"
    served.session = "two"
    assert served.session == served.getSession() == "two"
    del served.session
    with pytest.raises(AttributeError, match="'Served' object has no attribute 'session'"):
        served.getSession()
    assert not hasattr(served, "session")
    with pytest.raises(AttributeError):
        del served.session


@pytest.mark.parametrize("kind", [Lazy, LazyWithDefault, LazySlot])
@pytest.mark.parametrize("read", [lambda each: each.session, lambda each: each.getSession()], ids=["python", "java"])
def test_all_others_call_the_getter(kind: Callable[[], Any], read: Callable[[Any], Any]) -> None:
    assert read(kind()) == "made"


def test_a_default_of_the_class_stays_one() -> None:
    assert LazyWithDefault.session is None


def test_a_getter_may_read_the_field_in_functions_of_its_own() -> None:
    class Inner(Served):
        def getSession(self) -> Any:
            def first() -> Any:
                return self.session

            return first(), [self.session for _ in "ab"]

    assert Inner("x").session == ("x", ["x", "x"])  # type: ignore[comparison-overlap]


def test_a_class_below_may_override_the_getter() -> None:
    class Louder(Served):
        def getSession(self) -> Any:
            return super().getSession().upper()

    class ByProperty(Served):
        @property
        def session(self) -> Any:
            return "property"

        @session.setter
        def session(self, value: Any) -> None:
            self.given = value

    louder: Any = Louder("one")
    assert (louder.session, louder.getSession(), vars(louder)) == ("ONE", "ONE", {"session": "one"})
    by_property: Any = ByProperty("one")
    assert (by_property.session, by_property.getSession(), by_property.given) == ("property", "property", "one")


def test_a_field_that_the_getter_does_not_read_is_written_by_the_class_alone() -> None:
    class Other(ServerSession):
        def __init__(self) -> None:
            self.session = "a field"  # type: ignore[misc, assignment]

        def getSession(self) -> Any:
            return "of the getter"

        def start(self) -> Any:
            return self.session

    class Without(ServerSession):
        def getSession(self) -> Any:
            return "of the getter"

        def start(self) -> None: ...

    other: Any = Other()
    assert (other.session, other.getSession(), other.start()) == ("of the getter", "of the getter", "a field")
    without: Any = Without()
    with pytest.raises(
        AttributeError, match=r"session is the Python name of getSession\(\) and cannot be set: .* _session$"
    ):
        without.session = "lost"


def test_an_instance_without_a_place_for_the_field_says_where_to_add_it() -> None:
    class Bare(Served):
        __slots__ = ()

    class Slotted(ServerSession):
        __slots__ = ()

        def __init__(self) -> None:
            self.session = 1  # type: ignore[misc, assignment]

        def getSession(self) -> Any:
            return self.session

        def start(self) -> None: ...

    assert Bare("one").session == "one"  # type: ignore[comparison-overlap]  # the class above has a dictionary
    with pytest.raises(AttributeError, match="'Slotted' object has no attribute 'session': add it to __slots__"):
        Slotted()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_has_the_field(copied: Callable[[Any], Any]) -> None:
    assert copied(Served("one")).getSession() == "one"


# ------------------------------------------------------------------------------------------------ a getter and a setter


def _getter(self: Any) -> Any:
    return self.text


class Text(concrete(TextMessage, getText=_getter, setText=lambda *_: None)):  # type: ignore[misc]
    """Its constructor sets fields, its setter counts, its getter decorates: as Java means it, each once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.writes = 0

    def getText(self) -> str:
        return f"<{self.text}>"

    def setText(self, text: str) -> None:
        self.writes += 1
        self.text = text

    def clear(self) -> None:
        self.text = ""


class Louder(Text):
    def getText(self) -> str:
        return super().getText().upper()

    def setText(self, text: str) -> None:
        super().setText(f"{text}!")


def test_getter_and_setter_run_once_and_the_constructor_writes_the_field() -> None:
    message: Any = Text("one")
    assert (message.writes, vars(message)["text"]) == (0, "one")
    assert message.text == message.getText() == "<one>"
    message.text = "two"
    message.setText("three")
    assert (message.writes, message.text) == (2, "<three>")
    message.clear()
    assert (message.writes, message.text) == (2, "<>")


def test_a_class_below_may_override_both() -> None:
    message: Any = Louder("one")
    message.text = "two"
    assert (message.text, message.getText(), vars(message)["text"]) == ("<TWO!>", "<TWO!>", "two!")


def test_a_setter_of_another_field_is_called_by_its_own_class_too() -> None:
    class Held(Text):
        def __init__(self) -> None:
            self.writes = 0
            self.text = "through the setter"

        def getText(self) -> str:
            return self.held

        def setText(self, text: str) -> None:
            self.held = text

    class Delegating(concrete(TextMessage, getText=None, setText=None)):  # type: ignore[misc]
        """Its getter reads a field of that name of another object."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner
            self.text = "of the inner one"

        def getText(self) -> str:
            return self.inner.text  # type: ignore[no-any-return]

        def setText(self, text: str) -> None:
            self.inner.text = text

    inner: Any = Text("x")
    outer: Any = Delegating(inner)
    assert (inner.text, outer.text, "text" in vars(outer)) == ("<of the inner one>", "<of the inner one>", False)
    assert Held.__init__.__code__ is not Text.__init__.__code__


def test_a_mixed_in_getter_that_knows_nothing_of_names_works() -> None:
    class Mixin:
        def __init__(self) -> None:
            self.object = 1

        def getObject(self) -> Any:
            return self.object

        def setObject(self, value: Any) -> None:
            self.object = value

    class Mixed(Mixin, concrete(ObjectMessage)):  # type: ignore[misc]
        pass

    message: Any = Mixed()
    assert message.object == message.getObject() == 1
    message.object = 2
    assert (message.getObject(), vars(message)) == (2, {"object": 2})


# ------------------------------------------------------------------------------- annotations, dataclasses, slots


class Annotated(ServerSession):
    session: Session

    def __init__(self, session: Any) -> None:
        self.session = session

    def start(self) -> None: ...


def test_an_annotation_without_value_implements_the_getter() -> None:
    served: Any = Annotated("one")
    assert served.session == served.getSession() == "one"
    assert not hasattr(Annotated, "session")
    empty: Any = Annotated.__new__(Annotated)
    with pytest.raises(AttributeError, match="'Annotated' object has no attribute 'session'"):
        empty.getSession()


def test_an_annotation_implements_the_setter_too() -> None:
    class Annotation:
        text: str | None

    class Message(Annotation, concrete(TextMessage)):  # type: ignore[misc]
        pass

    message: Any = Message()
    message.setText("one")
    assert message.text == message.getText() == "one"
    message.text = "two"
    assert message.getText() == "two"


def test_an_annotation_of_a_class_variable_is_no_field() -> None:
    class Constant(ServerSession):
        session: ClassVar[Any]

        def start(self) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        Constant()


@dataclass
class PlainXid(Xid):
    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b"branch"


@dataclass(frozen=True, slots=True)
class FrozenXid(Xid):
    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b"branch"


@dataclass(kw_only=True, eq=False)
class MadeXid(Xid):
    format_id: int = 1
    global_transaction_id: bytes = field(default=b"transaction")
    branch_qualifier: bytes = field(default_factory=lambda: b"branch")


@pytest.mark.parametrize(
    "xid", [PlainXid(1, b"transaction"), FrozenXid(1, b"transaction"), MadeXid()], ids=lambda xid: type(xid).__name__
)
def test_a_dataclass_implements_getters_by_its_fields(xid: Any) -> None:
    for each in (xid, copy.copy(xid), pickle.loads(pickle.dumps(xid))):
        assert (each.format_id, each.global_transaction_id, each.branch_qualifier) == (1, b"transaction", b"branch")
        assert (each.getFormatId(), each.getGlobalTransactionId(), each.getBranchQualifier()) == (
            1,
            b"transaction",
            b"branch",
        )


def test_a_dataclass_without_a_value_says_which_is_missing() -> None:
    with pytest.raises(TypeError, match="global_transaction_id"):
        PlainXid(1)  # type: ignore[call-arg]
    assert PlainXid(1, b"a") == PlainXid(1, b"a") != PlainXid(2, b"a")


def test_a_dataclass_may_have_a_getter_of_its_own() -> None:
    @dataclass
    class Named(Queue):
        queue_name: str
        asked: int = 0

        def getQueueName(self) -> str:
            self.asked += 1
            return f"shop.{self.queue_name}"

    queue: Any = Named("orders")
    assert (queue.queue_name, queue.getQueueName(), str(queue), queue.asked) == (*["shop.orders"] * 3, 3)


INTERFACES = sorted(
    {
        found
        for found in vars(pyjms).values()
        if isinstance(found, type) and issubclass(found, Interface) and isabstract(found)
    },
    key=lambda found: found.__name__,
)


@pytest.mark.parametrize("slots", [False, True], ids=["dictionary", "slots"])
@pytest.mark.parametrize("interface", INTERFACES, ids=lambda found: found.__name__)
def test_each_getter_of_each_contract_reads_a_field(interface: Any, slots: bool) -> None:
    properties = {name: member for name, member in interface.java_members.items() if member.getter}
    kind = concrete(interface, __annotations__=dict.fromkeys(properties, Any))
    made = dataclass(kind, slots=slots)(*properties)
    for name, member in properties.items():
        assert getattr(made, name) == getattr(made, member.getter)() == name
        setattr(made, name, name.upper())
        assert getattr(made, name) == getattr(made, member.getter)() == name.upper()
        if member.setter:
            getattr(made, member.setter)(name)
            assert getattr(made, name) == name


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda found: found.__name__)
def test_each_getter_of_each_contract_may_be_written_as_in_java(interface: Any) -> None:
    def construct(self: Any) -> None:
        for name in properties:
            vars(self)[name] = name

    properties = {name: member for name, member in interface.java_members.items() if member.getter}
    getters = {
        member.getter: partialmethod(lambda self, name: vars(self)[name], name) for name, member in properties.items()
    }
    setters = {member.setter: lambda *_: None for member in properties.values() if member.setter}
    made = concrete(interface, __init__=construct, **getters, **setters)()
    assert [getattr(made, name) for name in properties] == list(properties)


# ---------------------------------------------------------------------------------------------------------- exceptions


class OrderError(JMSException):
    def __init__(self, message: str, error_code: int) -> None:
        super().__init__("why", "E1")
        self.message = message  # type: ignore[misc]
        self.error_code = error_code  # type: ignore[misc, assignment]


def test_a_field_of_an_exception_is_read_by_its_getter() -> None:
    error: Any = OrderError("no cups", 7)
    assert str(error) == error.message == error.getMessage() == "no cups"
    assert error.toString() == "OrderError: no cups"
    assert (error.error_code, error.getErrorCode(), error.args) == (7, 7, ("why",))
    error.message = None
    assert (str(error), error.getMessage()) == ("", None)


@pytest.mark.parametrize("base", [JMSException, NamingException, XAException, NumberFormatException])
@pytest.mark.parametrize("name", ["getMessage", "message"])
def test_the_text_of_an_exception_is_what_its_class_makes_of_it(base: Any, name: str) -> None:
    if base is NumberFormatException and name == "message":
        name = "get_message"

    class Counted(base):  # type: ignore[misc]
        pass

    def text(self: Any) -> str:
        return f"order 17: {base.getMessage(self)}"

    kind = type("Ordered", (Counted,), {name: property(text) if name == "message" else text})
    error = kind("why")
    assert str(error) == error.getMessage() == "order 17: why"
    assert error.toString() == "Ordered: order 17: why"
    assert str(type("Below", (kind,), {})("why")) == "order 17: why"
    assert str(type("Own", (kind,), {"__str__": lambda _: "own"})("why")) == "own"


def test_a_class_attribute_is_the_text_too() -> None:
    class Stale(JMSException):
        message = "stale"

    assert str(Stale()) == Stale("why").getMessage() == "stale"


def test_a_message_may_be_made_of_the_text_itself() -> None:
    class Asking(JMSException):
        def getMessage(self) -> str:
            return f"order 17: {self}, {super().getMessage()}, {super().message}, {JMSException.__str__(self)}"

    error = Asking("why")
    assert str(error) == error.getMessage() == "order 17: why, why, why, why"


def test_an_overridden_message_sees_the_field_and_the_reason() -> None:
    class Both(OrderError):
        def getMessage(self) -> str:
            return f"{self.message}: {super().getMessage()}"

    assert str(Both("no cups", 7)) == "no cups: why"


def test_a_dataclass_may_be_an_exception() -> None:
    @dataclass
    class Refused(JMSException):
        message: str
        cups: int = 2

    error: Any = Refused("no cups")
    assert str(error) == error.message == error.getMessage() == "no cups"
    assert (error.cups, error.getErrorCode(), error.getLinkedException()) == (2, None, None)


def test_the_code_of_an_xa_exception_without_a_constructor_is_0() -> None:
    class Refused(XAException):
        def __init__(self) -> None:
            self.message = "refused"  # type: ignore[misc]

    assert (str(Refused()), Refused().getErrorCode()) == ("refused", 0)


@pytest.mark.parametrize("error", [JMSException("why"), XAException("why"), NamingException("why")])
def test_an_exception_of_ours_cannot_be_written(error: Any) -> None:
    with pytest.raises(AttributeError, match=r"message is the Python name of getMessage\(\)"):
        error.message = "another"
    assert str(error) == "why"


# -------------------------------------------------------------------------------------------------- methods that are hidden


@pytest.mark.parametrize("value", [12.5, None, "now", True])
def test_a_field_that_hides_a_method_is_found(value: Any) -> None:
    served: Any = Served("one")
    assert hidden_method(served) is None
    served.start = value
    assert hidden_method(served) == (
        "Served has a field start, which hides the method start() of ServerSession: "
        "call the field by another name, such as _start"
    )
    served.start = lambda: None
    assert hidden_method(served) is None


def test_a_slot_or_a_value_of_the_class_may_hide_a_method_and_none_means_that_it_is_not_supported() -> None:
    class Slot(ServerSession):
        __slots__ = ("session", "start")

    class Value(Served):
        start = 12.5  # type: ignore[assignment]

    class Unsupported(Served):
        start = None  # type: ignore[assignment]

    assert "Slot has a field start" in (hidden_method(Slot()) or "")
    assert "Value has a field start" in (hidden_method(Value(1)) or "")
    assert hidden_method(Unsupported(1)) is None
