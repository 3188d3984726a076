from __future__ import annotations

import inspect
import re
import traceback
from abc import ABCMeta, abstractmethod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.api.names import Interface, JavaNames, Member, java_name
from tests.pyjms.api.specification import TYPES

METHODS = [method for type_ in TYPES.values() for method in type_.methods if not method.is_property]
PROPERTIES = [found for type_ in TYPES.values() for found in type_.properties]

# ----------------------------------------------------------------------------------------------------------- spelling


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.java)
def test_each_method_of_jms_is_spelled_as_in_java(method: Any) -> None:
    assert java_name(method.python) == method.java


@pytest.mark.parametrize("found", PROPERTIES, ids=lambda found: found.python)
def test_each_property_of_jms_is_spelled_as_in_java(found: Any) -> None:
    assert java_name(found.python, "get") == found.getter
    assert found.setter in (None, java_name(found.python, "set"))


@pytest.mark.parametrize(
    ("python", "java"),
    [
        ("format_id", "getFormatId"),
        ("global_transaction_id", "getGlobalTransactionId"),
        ("branch_qualifier", "getBranchQualifier"),
    ],
)
def test_a_transaction_id_is_spelled_as_javax_transaction_does(python: str, java: str) -> None:
    assert java_name(python, "get") == java


def test_a_capital_run_at_the_front_of_a_method_stays_small() -> None:
    assert java_name("utf_text") == "utfText"
    assert java_name("utf_text", "get") == "getUTFText"


words = st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True).filter(
    lambda word: word not in {"id", "jms", "jmsx", "rm", "utf", "xa"}
)


@given(st.lists(words, min_size=1, max_size=5).filter(lambda found: found != ["format", "id"]))
def test_ordinary_words_lose_only_their_underscores(found: list[str]) -> None:
    java = java_name("_".join(found))
    assert java.lower() == "".join(found)
    assert java[0] == found[0][0]
    assert len(re.findall(r"[A-Z]", java)) == len(found) - 1


@given(st.lists(words | st.sampled_from(["id", "jms", "utf", "xa"]), min_size=1, max_size=5))
def test_prefixes_and_names_differ_in_the_first_word_only(found: list[str]) -> None:
    name = "_".join(found)
    getter, setter = java_name(name, "get"), java_name(name, "set")
    assert getter[3:] == setter[3:]
    assert getter[:3] == "get"
    assert not getter[3].islower()


# ------------------------------------------------------------------------------------------------- one declaration


class Shelf(Interface, declares=True):
    """An interface with each sort of member."""

    __slots__ = ()

    SIZE = 4

    @property
    @abstractmethod
    def shelf_id(self) -> str: ...

    @shelf_id.setter
    @abstractmethod
    def shelf_id(self, value: str) -> None: ...

    @property
    @abstractmethod
    def is_full(self) -> bool: ...

    @abstractmethod
    def put_book(self, title: str) -> str: ...

    def take_all(self) -> str:
        return "all taken"

    def _private_thing(self) -> None: ...


def new_class(name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
    """Make a class as a class statement would."""
    return ABCMeta(name, bases, body)


def new_object(kind: Any) -> Any:
    """Make an object whose Java names no type checker knows: the classes of this module have no stub."""
    return kind()


MEMBERS = ("shelf_id", "is_full", "put_book", "take_all")


class PythonShelf(Shelf):
    def __init__(self) -> None:
        self.held = "one"

    @property
    def shelf_id(self) -> str:
        return self.held

    @shelf_id.setter
    def shelf_id(self, value: str) -> None:
        self.held = value

    @property
    def is_full(self) -> bool:
        return False

    def put_book(self, title: str) -> str:
        return f"put {title}"


class JavaShelf(Shelf):
    def __init__(self) -> None:
        self.held = "one"

    def getShelfID(self) -> str:
        return self.held

    def setShelfID(self, value: str) -> None:
        self.held = value

    def getIsFull(self) -> bool:
        return False

    def putBook(self, title: str) -> str:
        return f"put {title}"


def test_a_declaration_lists_its_members() -> None:
    assert tuple(Shelf.java_members) == MEMBERS
    assert Shelf.java_members["shelf_id"] == Member("shelf_id", getter="getShelfID", setter="setShelfID")
    assert Shelf.java_members["is_full"].java == ("getIsFull",)
    assert Shelf.java_members["put_book"].java == ("putBook",)


def test_only_declaring_classes_declare() -> None:
    class Taller(Shelf):
        def other_thing(self) -> None: ...

    assert not hasattr(Taller, "otherThing")
    assert tuple(Taller.java_members) == MEMBERS


def test_the_interface_is_abstract_under_both_names() -> None:
    assert Shelf.__abstractmethods__ >= {"shelf_id", "getShelfID", "setShelfID", "put_book", "putBook"}
    assert "takeAll" not in Shelf.__abstractmethods__


@pytest.mark.parametrize("kind", [PythonShelf, JavaShelf])
def test_either_name_implements_both(kind: Any) -> None:
    shelf = kind()
    assert shelf.put_book("x") == shelf.putBook("x") == shelf.putBook(title="x") == "put x"
    assert shelf.take_all() == shelf.takeAll() == "all taken"
    shelf.setShelfID("two")
    assert shelf.shelf_id == shelf.getShelfID() == "two"
    shelf.shelf_id = "three"
    assert shelf.shelf_id == shelf.getShelfID() == "three"
    assert shelf.is_full is shelf.getIsFull() is False
    with pytest.raises(AttributeError):
        shelf.is_full = True


@pytest.mark.parametrize("kind", [PythonShelf, JavaShelf])
def test_both_names_are_one_function(kind: Any) -> None:
    assert kind.put_book is kind.putBook
    assert kind.shelf_id.fget is kind.getShelfID
    assert kind.shelf_id.fset is kind.setShelfID


@given(chosen=st.sets(st.sampled_from(["put_book", "putBook", "shelf_id", "getShelfID", "setShelfID", "getIsFull"])))
def test_an_implementation_is_abstract_exactly_while_a_member_lacks_both_names(chosen: set[str]) -> None:
    sources = {"put_book": PythonShelf, "shelf_id": PythonShelf}
    body = {name: vars(sources.get(name, JavaShelf))[name] for name in chosen}
    made = new_class("Made", (Shelf,), body)
    complete = (
        bool({"put_book", "putBook"} & chosen)
        and ("shelf_id" in chosen or {"getShelfID", "setShelfID"} <= chosen)
        and "getIsFull" in chosen
    )
    assert inspect.isabstract(made) is not complete


# --------------------------------------------------------------------------------------------------- class hierarchies


@pytest.mark.parametrize("kind", [PythonShelf, JavaShelf])
def test_the_nearest_definition_wins_whatever_its_name(kind: Any) -> None:
    class ByJava(kind):  # type: ignore[misc]
        def putBook(self, title: str) -> str:
            return f"java {title}, {super().putBook(title)}, {super().put_book(title)}"

    class ByPython(ByJava):
        def put_book(self, title: str) -> str:
            return f"python, {super().put_book(title)}"

    assert ByJava().put_book("x") == "java x, put x, put x"
    assert ByPython().putBook("x") == "python, java x, put x, put x"


def test_who_writes_both_names_keeps_both() -> None:
    class Both(PythonShelf):
        def put_book(self, title: str) -> str:
            return "python"

        def putBook(self, title: str) -> str:
            return "java"

    class Below(Both):
        pass

    for shelf in (Both(), Below()):
        assert (shelf.put_book("x"), shelf.putBook("x")) == ("python", "java")


@pytest.mark.parametrize("name", ["put_book", "putBook"])
def test_a_mixin_that_knows_nothing_of_names_counts_too(name: str) -> None:
    mixin = type("Mixin", (), {name: lambda _self, title: f"mixed {title}"})
    mixed = new_class("Mixed", (mixin, PythonShelf), {})
    assert mixed().put_book("x") == mixed().putBook("x") == "mixed x"
    behind = new_class("Behind", (PythonShelf, mixin), {})
    assert behind().put_book("x") == behind().putBook("x") == "put x"


def test_one_half_of_a_property_can_be_replaced_by_its_java_name() -> None:
    class Loud(PythonShelf):
        def setShelfID(self, value: str) -> None:
            self.held = value.upper()

    shelf: Any = Loud()
    shelf.shelf_id = "two"
    assert shelf.shelf_id == shelf.getShelfID() == "TWO"


def test_one_half_of_a_property_can_be_replaced_by_its_python_name() -> None:
    any_shelf: Any = JavaShelf

    class Loud(JavaShelf):
        shelf_id = any_shelf.shelf_id.getter(lambda self: self.held.upper())

    shelf = new_object(Loud)
    shelf.setShelfID("two")
    assert shelf.shelf_id == shelf.getShelfID() == "TWO"


class Fluent(Interface, declares=True):
    @property
    @abstractmethod
    def depth(self) -> int:
        """How deep it is."""

    @abstractmethod
    def set_depth(self, depth: int) -> Fluent: ...

    @property
    @abstractmethod
    def async_(self) -> object: ...

    @abstractmethod
    def set_async(self, listener: object) -> Fluent: ...


class PythonFluent(Fluent):
    @property
    def depth(self) -> int:
        return self._depth

    def set_depth(self, depth: int) -> Fluent:
        self._depth = depth
        return self

    @property
    def async_(self) -> object:
        return self._listener

    def set_async(self, listener: object) -> Fluent:
        self._listener = listener
        return self


class JavaFluent(Fluent):
    def getDepth(self) -> int:
        return self._deep

    def setDepth(self, depth: int) -> Fluent:
        self._deep = depth
        return self

    def getAsync(self) -> object:
        return self._listener

    def setAsync(self, listener: object) -> Fluent:
        self._listener = listener
        return self


@pytest.mark.parametrize("kind", [PythonFluent, JavaFluent])
def test_a_setter_that_is_a_method_also_writes_the_property(kind: Any) -> None:
    made = kind()
    assert made.set_depth(3) is made.setDepth(4) is made
    assert made.depth == made.getDepth() == 4
    made.depth = 5
    assert made.getDepth() == 5
    assert kind.setDepth is kind.set_depth is kind.depth.fset
    assert made.set_async("listener").getAsync() == made.async_ == "listener"
    made.async_ = None
    assert made.getAsync() is None


def test_a_setter_that_is_a_method_leaves_the_property_its_docstring() -> None:
    assert inspect.getdoc(Fluent.depth) == "How deep it is."


def test_two_interfaces_meet_in_one_class() -> None:
    class Lamp(Interface, declares=True):
        @abstractmethod
        def switch_on(self) -> str: ...

    class Case(Shelf, Lamp, declares=True):
        @abstractmethod
        def put_book(self, title: str) -> str: ...

    class Real(Case, PythonShelf):
        def switchOn(self) -> str:
            return "on"

        def put_book(self, title: str) -> str:
            return "real"

    shelf = new_object(Real)
    assert set(Real.java_members) == {*MEMBERS, "switch_on"}
    assert shelf.switch_on() == "on"
    assert shelf.putBook("x") == "real"
    assert shelf.getShelfID() == "one"


def test_an_interface_behind_an_implementation_does_not_hide_it() -> None:
    class Lit(PythonShelf, Shelf, declares=True):
        pass

    assert new_object(Lit).putBook("x") == "put x"


def test_a_slot_serves_as_a_property() -> None:
    class Slotted(Shelf):
        __slots__ = ("is_full", "shelf_id")

        def put_book(self, title: str) -> str:
            return title

    shelf = new_object(Slotted)
    shelf.setShelfID("two")
    shelf.is_full = True
    assert (shelf.shelf_id, shelf.getShelfID(), shelf.getIsFull()) == ("two", "two", True)


def test_an_attribute_of_the_class_serves_as_a_property() -> None:
    class Fixed(PythonShelf):
        is_full = True

    assert new_object(Fixed).getIsFull() is True


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_static_and_class_methods_have_both_names(kind: Any) -> None:
    class Odd(PythonShelf):
        put_book = kind(lambda *arguments: arguments[-1])

    made: Any = Odd
    assert made().putBook("x") == made.putBook("x") == "x"


def test_names_cost_no_instance_dictionary() -> None:
    class Bare(JavaNames, declares=True):
        __slots__ = ()

        def one_two(self) -> int:
            return 12

    assert not hasattr(Bare(), "__dict__")
    assert new_object(Bare).oneTwo() == 12


# ------------------------------------------------------ a field named like its getter (the rest is in test_fields.py)


class FullShelf(JavaShelf):
    """Its field is called as the Python name of its getter, which cannot be seen, as the name is put together."""

    def getShelfID(self) -> str:
        return getattr(self, "shelf" + "_id")  # type: ignore[no-any-return]

    def setShelfID(self, value: str) -> None:
        setattr(self, "shelf" + "_id", value)


USES: dict[str, Any] = {
    "the getter, by its Java name": lambda shelf: shelf.getShelfID(),
    "the getter, by its Python name": lambda shelf: shelf.shelf_id,
    "the setter, by its Java name": lambda shelf: shelf.setShelfID("two"),
    "the setter, by its Python name": lambda shelf: setattr(shelf, "shelf_id", "two"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_getter_or_setter_that_calls_itself_says_what_to_do_in_few_lines(use: Any) -> None:
    with pytest.raises(
        RecursionError, match=r"shelf_id is the Python name of getShelfID\(\).* such as _shelf_id$"
    ) as raised:
        use(new_object(FullShelf))
    assert len(traceback.extract_tb(raised.value.__traceback__)) < 6


def test_a_getter_that_reads_the_same_name_of_others_is_not_blamed_for_their_depth() -> None:
    class Wrapped(JavaShelf):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def getShelfID(self) -> str:
            return self.inner.shelf_id  # type: ignore[no-any-return]

    class Deep(JavaShelf):
        def getShelfID(self) -> str:
            return self.getShelfID()

    any_wrapped: Any = Wrapped
    shelf = new_object(JavaShelf)
    for _ in range(10):
        shelf = any_wrapped(shelf)
    assert shelf.shelf_id == "one"
    shelf = any_wrapped(any_wrapped(new_object(Deep)))
    with pytest.raises(RecursionError) as raised:
        _ = shelf.shelf_id
    assert "Python name" not in str(raised.value)
    assert len(traceback.extract_tb(raised.value.__traceback__)) > 100


def test_a_property_that_a_declaring_class_implements_reads_the_field_of_a_class_below_it() -> None:
    class Named(JavaNames, declares=True):
        @property
        def full_name(self) -> str:
            """The name."""
            return "a name"

    class Below(Named):
        def __init__(self) -> None:
            self.full_name = "another"  # type: ignore[misc]

        def own(self) -> tuple[str, str]:
            return self.full_name, super().full_name

    assert new_object(Named).getFullName() == "a name"
    assert Named.full_name.__doc__ == "The name."
    below = new_object(Below)
    assert (below.getFullName(), below.full_name, below.own()) == ("another", "another", ("another", "another"))
