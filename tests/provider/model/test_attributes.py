"""Attributes, statistics and operations as they are declared, resolved, shown and refused."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from pyjms_provider.model.attributes import (
    MASK,
    Attributes,
    ByteCount,
    Secret,
    attribute,
    declarations,
    mask,
    plain,
    resolve,
)
from pyjms_provider.model.errors import InvalidArgumentsError, InvalidAttributesError
from pyjms_provider.model.operations import (
    NO_PROGRESS,
    Progress,
    Statistic,
    StatisticKind,
    operation,
    operations_of,
    statistic,
    statistics_of,
)
from pyjms_provider.security.contracts import Operation


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Spot(BaseModel):
    x: int
    y: int = 0


class Sample(Attributes):
    port: int = attribute("A number.", ge=1, le=65535, mutable=False)
    size: ByteCount = attribute("How much.", default="${size}", unit="bytes")
    colour: Colour = attribute("Which.", default=Colour.RED)
    tags: frozenset[str] = attribute("A set.", default=frozenset())
    spots: list[Spot] = attribute("Structured.", default=[])
    limits: dict[str, int] = attribute("A map.", default={})
    most: int | None = attribute("Another number.", default=None, ge=0, le=9)
    password: Secret | None = attribute("Nobody sees it.", default=None, secure=True)
    friend: str | None = attribute("Somebody else.", default=None, refers_to="port")


def read(**actual: Any) -> Sample:
    found = resolve(Sample, {"name": "it", "port": 1, **actual}, {"size": "2KiB", "n": "7"}.get, "sample it")
    assert isinstance(found, Sample)
    return found


@pytest.mark.realises("BJ-ATT-1", "BJ-ATT-4")
def test_values_are_converted_and_defaults_may_be_variables() -> None:
    found = read(
        port="${n}", colour="blue", tags=["a", "b", "a"], spots=[{"x": "${n}"}], limits='{"a": 1}', password="s3"
    )
    assert (found.port, found.size, found.colour) == (7, 2048, Colour.BLUE)
    assert found.tags == {"a", "b"}
    assert found.spots == [Spot(x=7)]
    assert found.limits == {"a": 1}
    assert found.password is not None
    assert found.password.get_secret_value() == "s3"
    assert read(size="200MB").size == 200_000_000


@pytest.mark.parametrize(("name", "value"), [("port", True), ("size", True), ("size", False), ("most", False)])
def test_a_truth_value_is_no_number(name: str, value: bool) -> None:
    with pytest.raises(InvalidAttributesError) as caught:
        read(**{name: value})
    assert [(each.name, each.text) for each in caught.value.problems] == [
        (name, "should be a number, and true and false are none")
    ]
    assert read(durable=value).durable is value


@pytest.mark.realises("BJ-ATT-2")
def test_what_was_declared_can_be_read() -> None:
    known = declarations(Sample)
    assert list(known)[:5] == ["name", "type", "description", "durable", "context"]
    port, size, password = known["port"], known["size"], known["password"]
    assert (port.is_mandatory, port.is_mutable, port.is_secure, port.description) == (True, False, False, "A number.")
    assert port.schema["maximum"] == 65535
    assert (size.is_mandatory, size.default, size.unit, size.is_mutable) == (False, "${size}", "bytes", True)
    assert password.is_secure
    assert known["friend"].refers_to == "port"
    assert known["colour"].allowed == ("red", "blue")
    assert known["durable"].allowed == (True, False)
    assert known["tags"].allowed is None


def test_all_that_is_wrong_is_told_at_once_without_secrets() -> None:
    actual = {"prot": 1, "colour": "green", "size": "${nothing}", "spots": [{"y": 1}], "password": ["hunter2"]}
    with pytest.raises(InvalidAttributesError) as caught:
        resolve(Sample, {"name": "it", **actual}, dict[str, str]().get, "sample it")
    problems = {each.name: each.text for each in caught.value.problems}
    assert problems["prot"] == "there is no such attribute; did you mean port?"
    assert problems["port"] == "is mandatory; give it a value"
    assert problems["size"].startswith("there is no variable 'nothing'")
    assert problems["colour"] == "should be 'red' or 'blue'"
    assert problems["spots.0.x"] == "is mandatory; give it a value"
    assert "password" in problems
    assert "hunter2" not in caught.value.reason
    assert caught.value.reason.startswith("sample it: ")


def test_an_unknown_attribute_far_from_any_lists_those_that_there_are() -> None:
    with pytest.raises(InvalidAttributesError, match="zzz: there is no such attribute; there are: name, type,"):
        read(zzz=1)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, 5])
def test_a_name_is_a_text_on_one_line(name: object) -> None:
    with pytest.raises(InvalidAttributesError, match="name: "):
        resolve(Sample, {"name": name, "port": 1}, {"size": "1"}.get, "sample")


@pytest.mark.realises("BJ-ATT-3")
def test_secrets_are_masked_wherever_they_are_shown() -> None:
    assert plain(read(password="s3"))["password"] == MASK
    assert mask(Sample, {"password": "s3", "port": 1}) == {"password": MASK, "port": 1}
    assert mask(Sample, {"password": "s3", "port": 1}, ["port"]) == {"port": 1}
    assert mask(Sample, {"pasword": "s3", "other": None}) == {"pasword": MASK, "other": None}
    assert "s3" not in repr(read(password="s3"))


def test_plain_values_are_what_json_has() -> None:
    value = {"a": Colour.RED, "b": frozenset({"y", "x"}), "c": (Spot(x=1),), "d": None, "e": 1.5}
    assert plain(value) == {"a": "red", "b": ["x", "y"], "c": [{"x": 1, "y": 0}], "d": None, "e": 1.5}


class Base:
    path = "base it"

    @statistic("How many.", unit="things", kind=StatisticKind.COUNTER)
    def many(self) -> int:
        return 3

    @operation("Count.", needs=Operation.OBSERVE, changes=False)
    def count(
        self,
        up_to: Annotated[int, Field(description="How far.", ge=1)],
        colour: Colour = Colour.RED,
        *,
        by: str = "",
        progress: Progress = NO_PROGRESS,
    ) -> list[Colour]:
        progress(up_to, up_to)
        return [colour] * up_to


class Derived(Base):
    @statistic("How heavy.", costly=True)
    def weight(self) -> float | None:
        return None

    @statistic("How many there are really.")
    def many(self) -> int:
        return 4


def test_statistics_are_declared_where_they_are_computed() -> None:
    known = statistics_of(Derived)
    assert (known["many"].description, known["weight"].is_costly) == ("How many there are really.", True)
    assert statistics_of(Base)["many"].kind is StatisticKind.COUNTER
    assert statistics_of(Base)["many"].unit == "things"
    assert statistics_of(Base)["many"].schema == {"type": "integer"}
    assert (Derived().many, Base().many) == (4, 3)


class NosyStatistic(Statistic[int]):
    """Does what another thread does at that moment: Python adds an empty dictionary to a class without annotations."""

    def __get__(self, owner: object | None, kind: type) -> Any:
        assert "__annotations__" not in vars(kind)
        assert kind.__annotations__ == {}
        return self


class Unannotated:
    many = NosyStatistic(lambda _: 3, "How many.", None, StatisticKind.GAUGE, is_costly=False)


def test_statistics_are_looked_for_while_others_ask_for_the_annotations_of_the_class() -> None:
    assert list(statistics_of(Unannotated)) == ["many"]
    assert "__annotations__" in vars(Unannotated)


def test_operations_are_declared_with_typed_parameters() -> None:
    declared = operations_of(Derived)["count"]
    assert (declared.needs, declared.changes, declared.is_long) == (Operation.OBSERVE, False, True)
    assert declared.injected == ("by", "progress")
    assert set(declared.parameters["properties"]) == {"up_to", "colour"}
    assert declared.parameters["required"] == ["up_to"]
    assert declared.parameters["properties"]["up_to"]["description"] == "How far."
    read_arguments = declared.read_arguments("base it", {"up_to": "2", "colour": "blue"})
    assert declared.plain_result(Derived().count(**read_arguments)) == ["blue", "blue"]
    with pytest.raises(
        InvalidArgumentsError, match="count of base it: up_to: is mandatory; give it a value; tu: there is"
    ):
        declared.read_arguments("base it", {"tu": 1})


@pytest.mark.parametrize("name", ["a\nb", "a\x00b", "\x7f"])
def test_a_name_with_control_characters_is_refused_in_words(name: str) -> None:
    with pytest.raises(InvalidAttributesError, match="name: a line break, a tab or another control character is in it"):
        resolve(Attributes, {"name": name}, lambda _: None, "queue x")
