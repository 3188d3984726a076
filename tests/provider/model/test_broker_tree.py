"""The served broker's tree: nodes, hosts, ports, keys, users, rules; opened again, and with something wrong in it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyjms.spi.errors import AccessDeniedError, ClosedError, ResourceError
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.model.attributes import MASK
from pyjms_provider.model.errors import (
    FailedOpeningError,
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    ObjectInUseError,
    UnknownObjectError,
    WrongStateError,
)
from pyjms_provider.model.managed import ManagedObject, State
from pyjms_provider.model.port import Port
from pyjms_provider.model.security import AccessControl, AuthenticationProvider
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.security.contracts import Operation, PasswordCredentials, Principal, Target, TargetKind
from pyjms_provider.security.logins import CompositeAuthenticator
from pyjms_provider.stores.errors import HeldStoreError
from pyjms_provider.transport.settings import ClientCertificates, ListenerKind
from tests.provider.model.certificates import write_certificate
from tests.provider.model.world import Folder, Recorder

# Virtual hosts


@pytest.mark.realises("BJ-GEN-5", "BJ-THR-1")
def test_a_broker_has_several_virtual_hosts_each_with_its_thread(folder: Folder) -> None:
    shop = folder.host()
    assert folder.system is not None
    other_node = folder.system.broker.create_child("virtual_host_node", {"name": "other", "type": "memory"})
    other = other_node.create_child("virtual_host", {"name": "play"})
    shop.create_child("queue", {"name": "q"})
    assert other.child_names("queue") == []
    threads = {each.configuration_thread for each in (folder.system.broker, shop, other)}
    assert len(threads) == 3
    assert shop.child("queue", "q").configuration_thread is shop.configuration_thread
    assert other_node.configuration_thread is folder.system.broker.configuration_thread
    with pytest.raises(ObjectExistsError, match="has its virtual_host already: play"):
        other_node.create_child("virtual_host", {"name": "second"})


@pytest.mark.parametrize("node", ["json", "sql"])
def test_a_virtual_host_comes_back_with_its_messages(folder: Folder, node: str) -> None:
    assert folder.system is not None
    where = {"url": f"sqlite:///{folder.path}/main.db"} if node == "sql" else {}
    above = folder.system.broker.create_child("virtual_host_node", {"name": "main", "type": node, **where})
    host = above.create_child("virtual_host", {"name": "shop", "store_url": f"sqlite:///{folder.path}/messages.db"})
    host.create_child("queue", {"name": "q", "max_messages": 5}).invoke("publish", {"message": {"text": "hi"}})
    folder.open()
    found = folder.found_host()
    queue = found.child("queue", "q")
    assert queue.attribute_values(["max_messages"]) == {"max_messages": 5}
    assert queue.invoke("browse", {})["messages"][0]["body"]["text"] == "hi"
    assert found.statistic_values(["queue_count", "message_count"]) == {"queue_count": 1, "message_count": 1}
    assert found.child("store", "messages").statistic_values(["messages", "is_reliable"]) == {
        "messages": 1,
        "is_reliable": True,
    }


def test_the_attributes_of_a_host_are_obeyed(folder: Folder) -> None:
    host = folder.host(
        queue_defaults={"max_messages": 7, "max_bytes": "10MB"},
        queue_patterns=[{"pattern": "bulk.*", "policy": {"max_messages": 1, "overflow": "ring"}}],
        subscription_defaults={"max_messages": 3, "overflow": "ring"},
        branch_timeout_ms=0,
    )
    running = host.embedded.virtual_host
    assert running.queue("any").policy == QueuePolicy(max_messages=7, max_bytes=10_000_000)
    assert running.queue("bulk.1").policy.max_messages == 1
    assert running.policy.queues.subscriptions.max_messages == 3
    assert running.policy.branch_timeout_ms == 0


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"queue_defaults": {"colour": 1}}, "queue_defaults: a queue's policy has no colour"),
        ({"queue_patterns": [{"pattern": "a", "policy": {"priority": 11}}]}, "queue_patterns.0.policy: priority is 11"),
        ({"subscription_defaults": {"max_messages": 1}}, "subscription_defaults: .*would let one slow subscriber stop"),
        (
            {"queue_defaults": {"overflow": "flow_to_disk"}},
            "queue_defaults: overflow=flow_to_disk without a limit does nothing",
        ),
        ({"queue_defaults": {"partitions": 2}}, "queue_defaults: partitions is 2, and needs a cluster, which alone"),
        (
            {"queue_patterns": [{"pattern": "a", "policy": {}}, {"pattern": "b*", "policy": {"partitions": 4}}]},
            "queue_patterns.1.policy: partitions is 4, and needs a cluster, which alone",
        ),
        ({"subscription_defaults": {"partitions": 2}}, "subscription_defaults: .*partitions is for queues"),
        ({"store_url": "postgresql+psycopg://me:secret@db/x"}, "store_url: holds a password, which would be seen"),
        ({"memory_bytes": "1"}, "memory_bytes: should be greater than or equal to 1000000"),
        ({"synchronous": "maybe"}, "synchronous: should be 'full', 'normal' or 'off'"),
    ],
)
def test_a_host_with_wrong_attributes_is_refused(folder: Folder, attributes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidAttributesError, match=says) as caught:
        folder.host(**attributes)
    assert "secret" not in caught.value.reason


def test_one_broker_divides_no_queue(folder: Folder) -> None:
    host = folder.host()
    with pytest.raises(InvalidAttributesError, match="partitions: partitions is 4, and only a cluster divides queues"):
        host.create_child("queue", {"name": "orders", "partitions": 4})
    queue = host.create_child("queue", {"name": "orders", "partitions": 1})
    with pytest.raises(InvalidAttributesError, match="partitions: partitions is 2, and only a cluster divides queues"):
        queue.set_attributes({"partitions": 2})
    assert queue.attribute_values(["partitions"]) == {"partitions": 1}


def test_a_store_that_cannot_be_opened_makes_no_host(folder: Folder) -> None:
    with pytest.raises(ResourceError, match="must exist"):
        folder.host(store_url=f"sqlite:///{folder.path}/no/such/directory/x.db")
    assert folder.system is not None
    node = folder.system.broker.child("virtual_host_node", "main")
    assert node.child_names("virtual_host") == []
    assert not [each.name for each in threading.enumerate() if "virtual host shop" in each.name]


def test_a_host_whose_store_is_lost_is_errored_and_the_rest_starts(folder: Folder) -> None:
    folder.host(stored=True)
    folder.close()
    database = folder.path / "messages.db"
    saved = database.read_bytes()
    database.write_bytes(b"no database at all" * 1000)
    system = folder.open()
    host = folder.found_host()
    assert (system.broker.state, host.state) == (State.ACTIVE, State.ERRORED)
    assert "messages.db" in str(host.facts()["error"])
    assert host.facts()["error"].startswith("main.json, object 1: ")
    assert host.statistic_values(["queue_count"]) == {"queue_count": 0}
    with pytest.raises(WrongStateError, match="it does not run; start it"):
        _ = host.embedded
    with pytest.raises(FailedOpeningError):
        host.invoke("start", {})
    for left in folder.path.glob("messages.db*"):
        left.unlink()
    database.write_bytes(saved)
    host.invoke("start", {})
    assert host.state is State.ACTIVE


def test_a_node_whose_file_is_held_is_errored(folder: Folder) -> None:
    folder.host()
    other = Folder(folder.path)
    with pytest.raises(HeldStoreError, match=r"broker.toml is held by broker 'broker', process"):
        other.open()
    assert folder.system is not None
    second = folder.system.broker
    with pytest.raises(HeldStoreError, match=r"main.json is held by broker 'shop', process"):
        second.create_child(
            "virtual_host_node", {"name": "two", "type": "json", "path": str(folder.path / "main.json")}
        )
    assert second.child_names("virtual_host_node") == ["main"]


def test_a_host_that_waits_for_its_store_lets_go_when_the_broker_is_closed(folder: Folder) -> None:
    folder.host(stored=True)
    second = Folder(folder.path / "second")
    second.path.mkdir()
    second.open()
    assert second.system is not None
    node = second.system.broker.create_child("virtual_host_node", {"name": "main", "type": "memory"})
    waits = {"name": "shop", "store_url": f"sqlite:///{folder.path}/messages.db", "stand_by": "wait"}
    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(node.create_child, "virtual_host", waits)
        while not (found := list(node.children())):
            assert not creating.done()
        assert found[0].state is State.UNINITIALIZED
        found[0].close()
        with pytest.raises(ClosedError):
            creating.result(20)
    assert node.child_names("virtual_host") == []
    second.close()


def test_a_host_may_change_the_broker_while_the_broker_deletes_it(folder: Folder) -> None:
    host = folder.host()
    assert folder.system is not None
    broker = folder.system.broker

    class Upwards(Recorder):
        def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
            super().state_changed(managed, old, new)
            broker.set_attributes({"description": f"{managed.name} is {new.value}"})

    heard = Upwards()
    host.add_listener(heard)
    host.delete()
    assert heard.heard == [("state", "shop", "active", "deleted")]
    assert broker.attribute_values(["description"]) == {"description": "shop is deleted"}


def test_a_host_and_a_node_are_stopped_and_started(folder: Folder) -> None:
    host = folder.host()
    host.create_child("queue", {"name": "q", "max_messages": 4, "description": "d"})
    host.invoke("stop", {})
    assert host.child_names("queue") == []
    host.invoke("start", {})
    assert host.child("queue", "q").attribute_values(["max_messages", "description"]) == {
        "max_messages": 4,
        "description": "d",
    }
    node = host.parent
    assert node is not None
    node.invoke("stop", {})
    assert node.child_names("virtual_host") == []
    node.invoke("start", {})
    assert folder.found_host().child("queue", "q").attribute_values(["max_messages"]) == {"max_messages": 4}
    node.delete()
    assert folder.system is not None
    assert folder.system.broker.child_names("virtual_host_node") == []


def test_a_deleted_host_is_gone_from_its_node(folder: Folder) -> None:
    host = folder.host()
    host.create_child("queue", {"name": "q"})
    host.delete()
    folder.open()
    with pytest.raises(UnknownObjectError):
        folder.found_host()


# Ports, keys


@pytest.mark.realises("BJ-NET-4")
def test_a_port_is_opened_with_the_keys_of_its_key_store(folder: Folder) -> None:
    assert folder.system is not None
    broker = folder.system.broker
    certificate, key = write_certificate(folder.path, password=b"s3")
    keys = broker.create_child(
        "key_store", {"name": "keys", "certificate_file": certificate, "key_file": key, "key_password": "s3"}
    )
    assert keys.statistic_values(["subjects"]) == {"subjects": ["CN=server"]}
    broker.create_child("trust_store", {"name": "friends", "certificate_file": certificate})
    port = broker.create_child(
        "port",
        {
            "name": "secure",
            "type": "stomp",
            "port": 0,
            "transports": ["tcp", "tls"],
            "key_store": "keys",
            "trust_store": "friends",
            "client_certificates": "wanted",
        },
    )
    assert isinstance(port, Port)
    settings = port.listener_settings()
    assert settings.tls is not None
    assert (settings.kind, settings.plain_and_tls, settings.scheme) == (ListenerKind.TCP, True, "stomp")
    assert (str(settings.tls.certificate_file), settings.tls.key_password) == (certificate, "s3")
    assert settings.tls.client_certificates is ClientCertificates.WANTED
    assert port.statistic_values() == {"addresses": ["pretended://secure"], "connection_count": 0}
    with pytest.raises(ObjectInUseError, match="key_store keys is used by port secure"):
        keys.delete()
    port.invoke("stop", {})
    assert folder.opened[-1].is_closed
    assert port.statistic_values()["addresses"] == []
    port.invoke("start", {})
    assert len(folder.opened) == 2
    port.delete()
    assert folder.opened[-1].is_closed
    keys.delete()


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"transports": ["tls"]}, "key_store: is needed for TLS"),
        ({"transports": ["tcp", "websocket"]}, "transports: a port is for TCP or for WebSockets"),
        ({"client_certificates": "required"}, "trust_store: is needed"),
        ({"authentication_providers": ["nobody"]}, "there is no authentication_provider 'nobody'; create it first"),
        ({"port": 70000}, "port: should be less than or equal to 65535"),
        ({"transports": ["udp"]}, "transports.0: should be 'tcp'"),
    ],
)
def test_a_port_that_cannot_be_is_refused(folder: Folder, attributes: dict[str, object], says: str) -> None:
    assert folder.system is not None
    with pytest.raises(InvalidAttributesError, match=says):
        folder.system.broker.create_child("port", {"name": "p", "type": "stomp", **attributes})
    assert not folder.opened


def test_a_port_that_cannot_listen_is_errored_after_a_restart_and_not_created_before(folder: Folder) -> None:
    assert folder.system is not None
    folder.system.broker.create_child("port", {"name": "p", "type": "http"})
    folder.refuses_ports = True
    with pytest.raises(ResourceError, match="the address is in use"):
        folder.system.broker.create_child("port", {"name": "q", "type": "stomp"})
    system = folder.open()
    port = system.broker.child("port", "p")
    assert (port.state, system.broker.child_names("port")) == (State.ERRORED, ["p"])
    assert "broker.toml, line" in str(port.facts()["error"])
    folder.refuses_ports = False
    port.invoke("start", {})
    assert port.state is State.ACTIVE


def test_ports_open_last_and_close_first(folder: Folder) -> None:
    (folder.path / "users").write_text("")
    (folder.path / "users").chmod(0o600)
    folder.close()
    (folder.path / "broker.toml").write_text(
        'version = 1\n[broker]\nname = "shop"\n[[port]]\nname = "p"\ntype = "stomp"\n'
        'authentication_providers = ["people"]\n[[authentication_provider]]\nname = "people"\ntype = "user-file"\n'
        f'path = "{folder.path}/users"\n'
    )
    system = folder.open()
    assert system.broker.child("port", "p").state is State.ACTIVE


def test_the_secrets_of_an_object_of_an_unknown_type_are_not_shown(folder: Folder) -> None:
    (folder.path / "broker.toml").write_text(
        'version = 1\n[broker]\nname = "shop"\n[[authentication_provider]]\nname = "p"\ntype = "introspektion"\n'
        'client_secret = "s3cret"\n'
    )
    provider = folder.open().broker.child("authentication_provider", "p")
    assert provider.state is State.ERRORED
    assert provider.attribute_values() == {"name": "p", "type": "introspektion", "client_secret": MASK}


# Users and rules


def test_users_are_managed_through_their_provider(folder: Folder) -> None:
    assert folder.system is not None
    people = folder.system.broker.create_child(
        "authentication_provider",
        {
            "name": "people",
            "type": "user-file",
            "path": str(folder.path / "users"),
            "argon2_memory_kib": 64,
            "argon2_passes": 1,
        },
    )
    assert isinstance(people, AuthenticationProvider)
    alice = people.create_child("user", {"name": "alice", "password": "correct horse", "groups": ["staff"]})
    assert alice.attribute_values(["password", "groups"]) == {"password": MASK, "groups": ["staff"]}
    assert "correct" not in (folder.path / "users").read_text()
    port = folder.system.broker.create_child(
        "port", {"name": "p", "type": "stomp", "authentication_providers": ["people"]}
    )
    assert isinstance(port, Port)

    def log_in(password: str) -> Principal:
        return port.authenticator().authenticate(PasswordCredentials(user_name="alice", password=password))

    assert log_in("correct horse") == Principal(name="alice", groups=frozenset({"staff"}), provider="people")
    people.child("user", "alice").set_attributes({"password": "battery staple", "groups": ["sales"]})
    with pytest.raises(AccessDeniedError):
        log_in("correct horse")
    assert log_in("battery staple").groups == {"sales"}
    people.child("user", "alice").set_attributes({"password": MASK})
    with pytest.raises(ObjectExistsError, match="there is a user 'alice' already"):
        people.create_child("user", {"name": "alice", "password": "xxxxxxxxxx"})
    for attributes, says in (
        ({"name": "bob"}, "user bob: password: is mandatory"),
        ({"name": "bob", "password": "short"}, "user bob: password: "),
        ({"name": "b ob", "password": "long enough"}, "user b ob: name: "),
    ):
        with pytest.raises(InvalidAttributesError, match=says):
            people.create_child("user", attributes)
    people.child("user", "alice").delete()
    assert people.child_names("user") == []
    people.invoke("stop", {})
    with pytest.raises(WrongStateError, match="people is stopped: nobody could come in; start one of them"):
        port.authenticator()


def test_a_user_is_changed_as_a_whole_or_not_at_all(folder: Folder) -> None:
    assert folder.system is not None
    file = folder.path / "users"
    people = folder.system.broker.create_child(
        "authentication_provider", {"name": "people", "type": "user-file", "path": str(file)}
    )
    alice = people.create_child("user", {"name": "alice", "password": "correct horse", "groups": ["staff"]})
    before = file.read_text()
    for changes in ({"groups": ["a,b"]}, {"name": "bob"}, {"description": "forgotten"}, {"context": {"a": "b"}}):
        with pytest.raises((InvalidAttributesError, NotChangeableError)):
            alice.set_attributes({"password": "battery staple", **changes})
        assert file.read_text() == before
    for attributes in ({"description": "forgotten"}, {"durable": False}):
        with pytest.raises(InvalidAttributesError, match="is not kept of users"):
            people.create_child("user", {"name": "bob", "password": "correct horse", **attributes})
    alice.set_attributes({"name": "alice", "groups": None})  # the default again: a right that is taken away is gone
    assert people.child("user", "alice").attribute_values(["groups"]) == {"groups": []}


def test_ports_obey_a_provider_that_is_changed_stopped_and_started_while_they_are_open(folder: Folder) -> None:
    assert folder.system is not None
    broker = folder.system.broker
    cheap = {"type": "user-file", "argon2_memory_kib": 64, "argon2_passes": 1}
    first, second = (
        broker.create_child("authentication_provider", {"name": name, "path": str(folder.path / name), **cheap})
        for name in ("first", "second")
    )
    for provider, user in ((first, "alice"), (second, "bob")):
        provider.create_child("user", {"name": user, "password": "correct horse"})
    port = broker.create_child("port", {"name": "p", "type": "stomp", "authentication_providers": ["first", "second"]})
    assert isinstance(port, Port)
    asked = port.authenticator()

    def log_in(user: str) -> str:
        return asked.authenticate(PasswordCredentials(user_name=user, password="correct horse"), peer="10.0.0.1").name

    assert (log_in("alice"), log_in("bob")) == ("alice", "bob")
    first.invoke("stop", {})
    with pytest.raises(AccessDeniedError):
        log_in("alice")
    assert log_in("bob") == "bob"
    assert isinstance(port.authenticator(), CompositeAuthenticator)  # it could be opened again, for Bob
    first.set_attributes({"path": str(folder.path / "second")})
    first.invoke("start", {})
    with pytest.raises(AccessDeniedError):
        log_in("alice")
    first.set_attributes({"path": str(folder.path / "first")})
    assert log_in("alice") == "alice"
    for _ in range(12):  # Bob is not shut out by what the first provider, who does not know him, had to refuse
        assert log_in("bob") == "bob"


@pytest.mark.realises("BJ-CTX-2")
def test_a_variable_that_is_needed_below_is_not_taken_away(folder: Folder) -> None:
    assert folder.system is not None
    broker = folder.system.broker
    given = {"where": str(folder.path), "other": "x", "number": "7"}
    broker.set_attributes({"context": given})
    node = broker.create_child(
        "virtual_host_node",
        {"name": "main", "type": "json", "path": "${where}/${this:name}.json", "context": {"n": "3"}},
    )
    host = node.create_child("virtual_host", {"name": "shop", "history_queues": "${number}", "story_days": "${n}"})
    without = {name: value for name, value in given.items() if name != "where"}
    with pytest.raises(
        InvalidAttributesError, match="context: virtual_host_node main needs it: path: there is no variable 'where'"
    ):
        broker.set_attributes({"context": without})
    with pytest.raises(InvalidAttributesError, match="context: virtual_host main/shop needs it: history_queues: "):
        broker.set_attributes({"context": {**given, "number": "many"}})
    assert broker.attribute_values(["context"]) == {"context": given}
    broker.set_attributes({"context": {"where": str(folder.path), "number": "8"}})
    node.set_attributes({"context": {"n": "4"}})
    host.set_attributes({"description": "${number} and ${n}"})
    assert host.attribute_values(["history_queues", "description"]) == {"history_queues": 8, "description": "8 and 4"}


def test_a_port_that_is_restarted_obeys_its_new_attributes_or_stays_as_it_was(folder: Folder) -> None:
    assert folder.system is not None
    port = folder.system.broker.create_child("port", {"name": "p", "type": "stomp", "port": 0})
    port.set_attributes({"max_connections": 5})
    port.invoke("restart", {})
    assert [each.is_closed for each in folder.opened] == [True, False]
    folder.refuses_ports = True
    with pytest.raises(FailedOpeningError, match="port p cannot be opened again"):
        port.invoke("restart", {})
    assert port.state is State.ERRORED
    with pytest.raises(WrongStateError, match="port p is errored; start it"):
        port.invoke("restart", {})
    folder.refuses_ports = False
    port.invoke("start", {})
    assert [each.is_closed for each in folder.opened] == [True, True, False]


def test_each_kind_of_authentication_is_a_specialisation(folder: Folder) -> None:
    assert folder.system is not None
    broker = folder.system.broker
    asked = broker.create_child(
        "authentication_provider",
        {
            "name": "ask",
            "type": "introspection",
            "url": "https://id.example/introspect",
            "client_id": "broker",
            "client_secret": "${secret}",
            "context": {"secret": "s3"},
        },
    )
    assert asked.attribute_values(["client_secret", "timeout_ms"]) == {"client_secret": MASK, "timeout_ms": 5000}
    broker.create_child("authentication_provider", {"name": "all", "type": "anonymous"})
    with pytest.raises(InvalidAttributesError, match="name_from: should be 'common-name', 'subject'"):
        broker.create_child("authentication_provider", {"name": "x", "type": "certificate", "name_from": "shoe"})
    with pytest.raises(InvalidAttributesError, match=r"attempts: .*at least 1 is expected"):
        broker.create_child(
            "authentication_provider",
            {"name": "x", "type": "user-file", "path": str(folder.path / "u"), "attempts": 0},
        )


def test_rules_hold_at_once(folder: Folder) -> None:
    assert folder.system is not None
    made = folder.system.broker.create_child(
        "access_control",
        {
            "name": "rules",
            "rules": [{"effect": "allow", "who": "group:staff", "operations": ["read"], "kind": "queue"}],
        },
    )
    assert isinstance(made, AccessControl)
    bob = Principal(name="bob", groups=frozenset({"staff"}))
    target = Target(kind=TargetKind.QUEUE, name="q", virtual_host="shop")
    made.policy.check(bob, Operation.READ, target)
    with pytest.raises(AccessDeniedError):
        made.policy.check(bob, Operation.WRITE, target)
    made.set_attributes({"rules": [{"effect": "allow", "who": "user:bob"}]})
    made.policy.check(bob, Operation.WRITE, target)
    question = {"user": "eve", "does": "read", "kind": "queue", "name": "q"}
    assert made.invoke("explain", question) == {
        "is_allowed": False,
        "reason": "no rule allows it, and what no rule allows is denied",
    }
    with pytest.raises(InvalidAttributesError, match=r"access_control rules: rules: .*rule 1"):
        made.set_attributes({"rules": [{"effect": "perhaps", "who": "*"}]})
    made.delete()
    with pytest.raises(AccessDeniedError):
        made.policy.check(bob, Operation.READ, target)


def test_queues_cost_nothing_until_somebody_asks_for_them(folder: Folder) -> None:
    host = folder.host(stored=True)
    for number in range(300):
        host.embedded.virtual_host.create_queue(f"q{number:05}", None)
    folder.open()
    found = folder.found_host()
    assert isinstance(found, VirtualHost)
    assert len(found.child_names("queue")) == 300
    assert not found.queues.made, "nothing is made until somebody asks"
    page = [found.child("queue", name) for name in found.child_names("queue")[100:150]]
    assert [each.statistic_values()["depth"] for each in page] == [0] * 50
    assert len(found.queues.made) == 50
    del page
    assert not found.queues.made


@pytest.mark.parametrize("kind", ["sql", "store"])
@pytest.mark.parametrize("url", ["postgresql+psycopg://me:hush@db/x", "postgresql+psycopg://me@db/x?password=hush"])
def test_a_node_keeps_no_password_in_its_url(folder: Folder, kind: str, url: str) -> None:
    assert folder.system is not None
    top = folder.system.broker
    with pytest.raises(InvalidAttributesError, match=r"url: holds a password.*give it as password") as caught:
        top.create_child("virtual_host_node", {"name": "main", "type": kind, "url": url})
    assert "hush" not in caught.value.reason
    assert list(top.children("virtual_host_node")) == []
