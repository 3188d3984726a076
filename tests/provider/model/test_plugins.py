"""Packages that extend the broker: what is wrong with one is told with its name, and keeps no broker from opening."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms import (
    ConnectionFactory,
    JMSException,
    JMSSecurityException,
    ResourceAllocationException,
    Session,
    TextMessage,
)
from pyjms.spi.registry import PluginError
from pyjms_provider.broker import stop_broker
from pyjms_provider.core import queue_types
from pyjms_provider.core.policy import PolicyError, QueuePolicy
from pyjms_provider.model import tree
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.configuration.json_file import JsonConfigurationStore
from pyjms_provider.model.errors import InvalidAttributesError, UnknownCategoryError
from pyjms_provider.model.managed import State
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.model.plugged import packages
from tests.provider.stores.installing import install

pytestmark = pytest.mark.realises("BJ-GEN-4")

PARTS = """
from dataclasses import dataclass
from itertools import count
from pyjms_provider.plugins import *

@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    size: int = setting("How large.", default=1)
    word: str = setting("A secret.", default="", is_secure=True)

@dataclass(frozen=True, slots=True, kw_only=True)
class Clashing:
    name: str = setting("A name that every object has.")

@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    size: int = 1

class Keys(AuthenticationType):
    settings = Choices
    def make(self, name, settings, clock):
        if settings.size < 0:
            raise ValueError("size is negative")
        return Failing() if settings.size == 13 else {}["no such key"] if settings.size == 14 else "none" if settings.size == 15 else Right()

class Right(Authenticator):
    def authenticate(self, credentials, *, peer=""):
        return Principal(name=credentials.user_name)

class Failing(Authenticator):
    def authenticate(self, credentials, *, peer=""):
        return {}["a fault"]

class Odd(AuthenticationType):
    def make(self, name, settings, clock):
        return OddOne()

class OddOne(Authenticator):
    def authenticate(self, credentials, *, peer=""):
        return "ann"

class Clashes(Keys):
    settings = Clashing

class Declares(Keys):
    settings = Undeclared

class Gate(AccessControlType):
    settings = Choices
    def make(self, name, settings, clock):
        return Closed() if settings.size == 13 else Opened()

class Opened(AccessPolicy):
    def check(self, principal, operation, target, connection=""):
        pass

class Closed(AccessPolicy):
    def check(self, principal, operation, target, connection=""):
        {}["a fault"]

class Demanding(Gate):
    def __init__(self, home):
        pass

class Whole(QueueTypePlugin):
    needs_key = True
    def ranks(self, key):
        def rank(message):
            value = message.properties.get(key)
            if value == 13:
                raise RuntimeError("a fault")
            return [] if value == 14 else value
        return rank

class Line(PortType):
    def open(self, services):
        return {}["a port"]

class Thing(Startable):
    category = "thing"

class Part(Startable):
    category = "part"

class Things(ModelPlugin):
    def categories(self):
        # The child is named before its parent.
        return [
            Category(name="part", parent="thing", summary="a part", types={"": Part}),
            Category(name="thing", parent="port", summary="a thing", types={"small": Thing, "large": Thing}),
        ]

class KeptThing(Startable):
    category = "kept"

class Kept(ModelPlugin):
    def categories(self):
        return [Category(name="kept", parent="virtual_host", summary="a thing", types={"": KeptThing})]

class Orphans(ModelPlugin):
    def categories(self):
        return [
            Category(name="orphan", parent="nobody", summary="has no parent", types={"": Thing}),
            Category(name="thing2", parent="broker", summary="has another's class", types={"": Thing}),
            Category(name="Bad-Name", parent="broker", summary="x", types={"": Thing}),
            Category(name="queue", parent="broker", summary="is there", types={"": Thing}),
            Category(name="empty", parent="broker", summary="has no class"),
        ]
    def specialisations(self):
        return [Specialisation(category="moon", name="x", implementation=Thing), Specialisation(category="route", name="y", implementation=Thing)]

class Raising(ModelPlugin):
    def categories(self):
        return {}["a fault"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with packages(tmp_path / "packages") as folder:
        yield folder


def put(folder: Path, points: str, package: str = "odd-parts", **modules: str) -> None:
    install(folder, package, points, group="", **({"odd_parts": PARTS} if package == "odd-parts" else {}), **modules)


@pytest.fixture
def served(folder: Path) -> Iterator[ServedBroker]:
    put(
        folder,
        """[pyjms.authentication_providers]
keys = odd_parts:Keys
odd = odd_parts:Odd
[pyjms.access_controls]
gate = odd_parts:Gate
[pyjms.queue_types]
whole = odd_parts:Whole
[pyjms.ports]
line = odd_parts:Line
[pyjms.model]
any = odd_parts:Things""",
    )
    with ServedBroker.open() as served:
        node = served.broker.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"})
        yield served


def stomp_port(served: ServedBroker, provider: dict[str, Any], access: dict[str, Any]) -> str:
    top = served.broker
    top.create_child("authentication_provider", {"name": "who", **provider})
    top.create_child("access_control", {"name": "may", **access})
    chosen = {"authentication_providers": ["who"], "access_control": "may"}
    top.create_child("port", {"name": "stomp", "type": "stomp", "port": 0, **chosen})
    return served.addresses()[0]


@pytest.mark.parametrize(
    ("points", "modules", "says"),
    [
        ("[pyjms.ports]\nx = not_there:Line", {}, r"the port type 'x' \(package odd-parts 1\.0: not_there:Line\) cannot be imported"),
        ("[pyjms.ports]\nx = raising:A", {"raising": "raise RuntimeError('no licence')"}, r"cannot be made: .*no licence"),
        ("[pyjms.ports]\nx = odd_parts:Gate", {}, r"is no class that implements pyjms_provider\.model\.port_type\.PortType; install another"),
        ("[pyjms.ports]\nstomp = odd_parts:Line", {}, r"the package odd-parts 1\.0 brings as 'stomp' cannot be added: port has a specialisation 'stomp' already; uninstall"),
        ("[pyjms.access_controls]\nx = odd_parts:Demanding", {}, r"the access control 'x' \(package odd-parts 1\.0: .*\) cannot be made: .*home"),
        ("[pyjms.authentication_providers]\nx = odd_parts:Clashes", {}, r"odd-parts 1\.0 brings as 'x' .*: .*the setting 'name' has the name"),
        ("[pyjms.authentication_providers]\nx = odd_parts:Declares", {}, r"odd-parts 1\.0 brings as 'x' .* tell its author"),
        ("[pyjms.queue_types]\nx = odd_parts:Choices", {}, r"is no class that implements pyjms_provider\.core\.queue_types\.QueueTypePlugin"),
        ("[pyjms.model]\nx = odd_parts:Raising", {}, r"odd-parts 1\.0 brings as 'x' to the group pyjms\.model cannot be used: .*a fault"),
        ("[pyjms.model]\nx = odd_parts:Orphans", {}, r"'orphan' .*there is no category 'nobody'"),
        ("[pyjms.model]\nx = odd_parts:Orphans", {}, r"'thing2' .*Thing is no class of the category thing2"),
        ("[pyjms.model]\nx = odd_parts:Orphans", {}, r"'Bad-Name' is no name of a category"),
        ("[pyjms.model]\nx = odd_parts:Orphans", {}, r"there is a category 'queue' already"),
        ("[pyjms.model]\nx = odd_parts:Orphans", {}, r"the category 'empty' has no class"),
        ("[pyjms.model]\nx = odd_parts:Orphans", {}, r"'x' .*there is no category 'moon'"),
        ("[pyjms.model]\nx = odd_parts:Orphans", {}, r"'y' .*Thing is no class of the category route"),
    ],
)  # fmt: skip
def test_a_package_that_cannot_be_used_is_told_of_and_the_broker_opens(
    folder: Path, caplog: pytest.LogCaptureFixture, points: str, modules: dict[str, str], says: str
) -> None:
    put(folder, points, **modules)
    with caplog.at_level(logging.WARNING), ServedBroker.open() as served:
        assert served.broker.state is State.ACTIVE
        assert served.objects_in(State.ERRORED) == []
    told = "\n".join(each.getMessage() for each in caplog.records)
    assert "PYJMS-MODEL-5 a package is left out" in told
    assert re.search(says, told), told


def test_a_broken_package_that_the_configuration_names_is_the_reason_of_an_error(folder: Path) -> None:
    put(folder, "[pyjms.access_controls]\nx = odd_parts:Demanding\n[pyjms.queue_types]\ny = odd_parts:Choices")
    with ServedBroker.open() as served:
        with pytest.raises(
            UnknownCategoryError, match=r"access_control of the type 'x' cannot be used: .*package odd-parts 1\.0"
        ):
            served.broker.create_child("access_control", {"name": "may", "type": "x"})
        node = served.broker.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        host = node.create_child("virtual_host", {"name": "shop"})
        with pytest.raises(
            InvalidAttributesError,
            match=r"queue q: type: should be 'standard', .*; the queue type 'y' \(package odd-parts 1\.0",
        ):
            host.create_child("queue", {"name": "q", "type": "y"})
        assert host.find_child("queue", "q") is None


def test_two_packages_that_bring_the_same_are_both_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for package in ("one-part", "two-part"):
        module = package.replace("-", "_")
        put(folder, f"[pyjms.access_controls]\ntwice = {module}:Gate", package, **{module: PARTS})
    with (
        ServedBroker.open() as served,
        pytest.raises(UnknownCategoryError, match="uninstall all but one of them") as caught,
    ):
        served.broker.create_child("access_control", {"name": "may", "type": "twice"})
    assert "package one-part 1.0: one_part:Gate and package two-part 1.0: two_part:Gate" in str(caught.value)


def test_a_wrong_setting_is_told_of_its_attribute_and_a_secret_is_masked(served: ServedBroker) -> None:
    with pytest.raises(InvalidAttributesError, match=r"authentication_provider x: size: .*size is negative"):
        served.broker.create_child("authentication_provider", {"name": "x", "type": "keys", "size": -1})
    for size, says in ((14, "has failed: .*no such key"), (15, "has made a str that is no .*Authenticator")):
        with pytest.raises(PluginError, match=says):
            served.broker.create_child("authentication_provider", {"name": "x", "type": "keys", "size": size})
    made = served.broker.create_child("authentication_provider", {"name": "x", "type": "keys", "word": "sesame"})
    assert made.attribute_values(["size", "word"]) == {"size": 1, "word": "********"}
    with pytest.raises(InvalidAttributesError, match="size is negative"):
        made.set_attributes({"size": -5})
    assert made.attribute_values(["size"]) == {"size": 1}


def test_a_fault_of_authentication_lets_nobody_in(served: ServedBroker, caplog: pytest.LogCaptureFixture) -> None:
    url = stomp_port(served, {"type": "keys", "size": 13}, {"type": "gate"})
    with pytest.raises(JMSSecurityException, match="the credentials were refused"):
        ConnectionFactory(url).create_connection("ann", "x")
    assert "PYJMS-SECURITY-9 a log-in was refused, as the authentication provider who has failed" in caplog.text
    who = served.broker.child("authentication_provider", "who")
    who.set_attributes({"size": 1})
    ConnectionFactory(url).create_connection("ann", "x").close()
    who.invoke("stop", {})
    with pytest.raises(JMSSecurityException):
        ConnectionFactory(url).create_connection("ann", "x")


def test_an_authentication_that_returns_no_user_lets_nobody_in(served: ServedBroker) -> None:
    url = stomp_port(served, {"type": "odd"}, {"type": "gate"})
    with pytest.raises(JMSSecurityException, match="the credentials were refused"):
        ConnectionFactory(url).create_connection("ann", "x")


def test_a_fault_of_access_control_denies(served: ServedBroker, caplog: pytest.LogCaptureFixture) -> None:
    url = stomp_port(served, {"type": "keys"}, {"type": "gate"})
    with ConnectionFactory(url).create_connection("ann", "x") as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("q"))
        producer.send(session.create_text_message("allowed"))
        served.broker.child("access_control", "may").set_attributes({"size": 13})
        for _ in range(2):
            with pytest.raises(JMSSecurityException, match="the access control may has failed: ask an operator"):
                producer.send(session.create_text_message("denied"))
        assert caplog.text.count("PYJMS-SECURITY-10") == 1
        served.broker.child("access_control", "may").set_attributes({"size": 1})
        producer.send(session.create_text_message("allowed"))


def test_a_port_that_cannot_be_opened_is_refused_with_its_package_to_blame(served: ServedBroker) -> None:
    with pytest.raises(PluginError, match=r"the plug-in for ports of the type 'line' has failed: .*a port"):
        served.broker.create_child("port", {"name": "x", "type": "line", "port": 0})
    assert served.broker.find_child("port", "x") is None


def test_a_specialisation_of_a_bundled_port_is_opened_as_that(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = type("MyPort", (tree.class_of("port", "stomp")[1],), {})
    tree.add_specialisation("port", "mine", made)
    served.broker.create_child("port", {"name": "x", "type": "mine", "port": 0})
    assert served.broker.child("port", "x").state is State.ACTIVE
    assert served.addresses()[0].startswith("stomp://")


def test_categories_of_a_package_are_opened_after_what_they_are_below(served: ServedBroker) -> None:
    assert list(tree.TREE)[-3:] == ["port", "thing", "part"]
    assert tree.types_of("thing") == ("small", "large")
    access = {"authentication_providers": ["who"], "access_control": "may"}
    served.broker.create_child("authentication_provider", {"name": "who", "type": "keys"})
    served.broker.create_child("access_control", {"name": "may", "type": "gate"})
    port = served.broker.create_child("port", {"name": "s", "type": "stomp", "port": 0, **access})
    with pytest.raises(UnknownCategoryError, match="a thing needs a type; there are: 'small', 'large'"):
        port.create_child("thing", {"name": "one"})
    thing = port.create_child("thing", {"name": "one", "type": "small"})
    part = thing.create_child("part", {"name": "two"})
    assert (part.names, part.state) == (("s", "one", "two"), State.ACTIVE)
    port.invoke("stop", {})
    port.invoke("start", {})
    assert port.child("thing", "one").child("part", "two").state is State.ACTIVE
    assert "thing (small, large)" in tree.picture()


def test_an_object_of_a_missing_category_stays_in_the_configuration_until_its_host_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"

    def opened() -> SystemConfig:
        return SystemConfig.opened(
            JsonConfigurationStore(file), broker={"name": "shop"}, context={"pyjms.work_dir": str(tmp_path)}
        )

    with packages(tmp_path / "packages") as folder:
        put(folder, "[pyjms.model]\nany = odd_parts:Kept")
        system = opened()
        node = system.broker.create_child("virtual_host_node", {"name": "main", "type": "json"})
        node.create_child("virtual_host", {"name": "shop"}).create_child("kept", {"name": "one"})
        system.close()
    for _ in range(2):
        system = opened()
        host = system.broker.child("virtual_host_node", "main").child("virtual_host", "shop")
        (child,) = host.children()
        assert (host.state, child.name, child.state) == (State.ACTIVE, "one", State.ERRORED)
        assert "there is no category 'kept'" in str(child.snapshot.error)
        assert "install the package that brings it" in str(child.snapshot.error)
        # Neither keeps it from being changed, stopped and started with its host.
        host.set_attributes({"description": "x"})
        host.invoke("stop", {})
        host.invoke("start", {})
        assert [each.state for each in host.children()] == [State.ERRORED]
        system.close()
    with packages(tmp_path / "again") as folder:
        put(folder, "[pyjms.model]\nany = odd_parts:Kept")
        system = opened()
        host = system.broker.child("virtual_host_node", "main").child("virtual_host", "shop")
        assert host.child("kept", "one").state is State.ACTIVE
        system.close()
    system = opened()
    system.broker.child("virtual_host_node", "main").child("virtual_host", "shop").delete()
    system.close()
    assert "kept" not in (tmp_path / "main.json").read_text("utf-8")


# Queue types


def texts(session: Session, queue: str) -> list[str]:
    consumer = session.create_consumer(session.create_queue(queue))
    found: list[str] = []
    while isinstance(message := consumer.receive_no_wait(), TextMessage):
        found.append(message.text or "")
    consumer.close()
    return found


def send(session: Session, queue: str, *values: float | str | None) -> None:
    producer = session.create_producer(session.create_queue(queue))
    for value in values:
        message = session.create_text_message(str(value))
        if value is not None:
            message.set_object_property("k", value)
        producer.send(message)


@pytest.fixture
def typed(folder: Path) -> Iterator[Path]:
    put(folder, "[pyjms.queue_types]\nwhole = odd_parts:Whole")
    yield folder
    stop_broker("test_plugins")


def test_a_queue_types_order_holds_in_transactions_and_after_a_rollback(typed: Path) -> None:
    with ConnectionFactory("vm://test_plugins?type=whole&key=k").create_connection() as connection:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        send(session, "q", 3, 1, "text", None, 2, 1.5)
        session.commit()
        assert texts(session, "q") == ["None", "1", "1.5", "2", "3", "text"]
        session.rollback()
        send(session, "q", 0)
        session.commit()
        assert texts(session, "q") == ["None", "0", "1", "1.5", "2", "3", "text"]
        session.commit()


def test_a_message_that_cannot_be_ranked_comes_first_and_is_told_once(
    typed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ConnectionFactory("vm://test_plugins?type=whole&key=k").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        send(session, "q", 1, 13, 14, 13)
        assert texts(session, "q") == ["13", "14", "13", "1"]
    assert caplog.text.count("PYJMS-BROKER-34 the queue type whole has failed for a message, which comes first") == 1


def test_a_queue_types_name_is_checked_like_any_other_value(typed: Path) -> None:
    with pytest.raises(PolicyError, match="type=whole needs key: give the name of a property"):
        QueuePolicy().altered(type="whole")
    with pytest.raises(PolicyError, match="type=whole puts messages where a non_destructive consumer has been"):
        QueuePolicy().altered(type="whole", key="k", non_destructive=True)
    policy = QueuePolicy().altered(type="whole", key="k")
    assert QueuePolicy.from_json(policy.to_json()) == policy
    assert (str(policy.type), hash(policy.type)) == ("whole", hash(QueuePolicy.from_json(policy.to_json()).type))
    with pytest.raises(
        PolicyError, match=r"no package brings the queue type 'half': install it, or choose one of standard, .*whole"
    ):
        QueuePolicy().altered(type="half")


def test_a_queue_whose_type_is_missing_keeps_its_messages_until_it_is_back_or_made_standard(
    typed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"vm://test_plugins?store=sqlite:///{tmp_path}/shop.db"

    def open_session() -> Session:
        connection = ConnectionFactory(url).create_connection()
        connection.start()
        return connection.create_session(False, Session.AUTO_ACKNOWLEDGE)

    session = open_session()
    manager = QueueManager.of("test_plugins")
    for queue in ("one", "two"):
        manager.create(queue, type="whole", key="k", max_messages=10)
        send(session, queue, 2, 1)
    manager.pause("two")
    stop_broker("test_plugins")
    # The package is uninstalled.
    monkeypatch.setattr(queue_types, "_made", {})
    points = typed / "odd_parts-1.0.dist-info" / "entry_points.txt"
    text = points.read_text()
    points.write_text("")
    session = open_session()
    manager = QueueManager.of("test_plugins")
    send(session, "one", 0)
    assert manager.report("one").waiting == 3
    assert [message.body for message in manager.browse("one")] == ["2", "1", "0"]
    with pytest.raises(
        ResourceAllocationException, match="its type cannot be used: no package brings the queue type 'whole'"
    ):
        session.create_consumer(session.create_queue("one"))
    with pytest.raises(PolicyError, match="type=whole cannot be used here, so the queue stays paused"):
        manager.resume("one")
    # Other changes are kept, and those of the type as it was.
    manager.alter("one", max_messages=20)
    # An operator decides: its messages leave as those of a standard queue.
    manager.alter("two", type="standard", key=None, paused=False)
    assert texts(session, "two") == ["2", "1"]
    stop_broker("test_plugins")
    points.write_text(text)
    session = open_session()
    policy = QueueManager.of("test_plugins").report("one").policy
    assert (policy.type.value, policy.paused, policy.max_messages) == ("whole", False, 20)
    assert texts(session, "one") == ["0", "1", "2"]


def test_settings_that_name_a_missing_type_are_refused_before_anything_is_opened(served: ServedBroker) -> None:
    with pytest.raises(
        JMSException, match="vm:// asks for a policy of queues that cannot be: type is 'half'; no package brings"
    ):
        ConnectionFactory("vm://test_plugins?type=half").create_connection()
    node = served.broker.create_child("virtual_host_node", {"name": "second", "type": "memory"})
    with pytest.raises(
        InvalidAttributesError, match="queue_defaults: type is 'half'; no package brings the queue type 'half'"
    ):
        node.create_child("virtual_host", {"name": "other", "queue_defaults": {"type": "half"}})


def test_a_paused_queue_of_a_missing_type_is_paused_when_it_is_back(typed: Path) -> None:
    stored = QueuePolicy().altered(type="whole", key="k", paused=True).to_json()
    held = QueuePolicy.from_journal(stored.replace("whole", "gone"))
    assert held.paused
    assert QueuePolicy.from_journal(held.to_json().replace("gone", "whole")).paused
    running = QueuePolicy().altered(type="whole", key="k").to_json()
    held = QueuePolicy.from_journal(running.replace("whole", "gone"))
    assert held.paused
    assert not QueuePolicy.from_journal(held.to_json().replace("gone", "whole")).paused
