"""Which virtual hosts a port serves; one that would serve none, as they could not be opened, is not opened itself."""

from __future__ import annotations

import socket
from itertools import count
from pathlib import Path
from queue import Queue

import pytest

from pyjms import ConnectionFactory, InvalidDestinationException, JMSException, Session
from pyjms.spi.errors import ResourceError
from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.model.errors import FailedOpeningError
from pyjms_provider.model.managed import ConfigurationChangeListener, ManagedObject, State
from pyjms_provider.model.port import StompPort
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.hosts import ManagedHosts, running_hosts
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.stores.file_lock import FileLock
from tests.system.network.served import make_queue, port_of, stored_broker

LONG_S = 30


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def opened(folder: Path) -> ServedBroker:
    return ServedBroker.open(TomlConfigurationStore(folder / "broker.toml"), context={"pyjms.work_dir": str(folder)})


@pytest.fixture
def folder(tmp_path: Path, store: Path) -> Path:
    """Where a broker is configured that has one virtual host with a store."""
    with opened(tmp_path) as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "shop", "type": "json"})
        node.create_child("virtual_host", {"name": "shop", "store_url": f"sqlite:///{store}"})
        chosen = {"transports": ["tcp"], "authentication_providers": ["who"], "access_control": "access"}
        top.create_child("port", {"name": "stomp", "type": "stomp", "host": "127.0.0.1", "port": 0, **chosen})
    return tmp_path


def test_no_port_opens_over_a_host_that_could_not_take_its_store(folder: Path, store: Path) -> None:
    lock = FileLock(f"{store}.lock", "another broker")
    lock.acquire()
    with opened(folder) as served:
        (host,) = [each for each in served.objects_in(State.ERRORED) if isinstance(each, VirtualHost)]
        (port,) = [each for each in served.objects_in(State.ERRORED) if isinstance(each, StompPort)]
        assert served.addresses() == []
        assert "virtual_host" in str(port.snapshot.error)
        with pytest.raises(FailedOpeningError, match="would serve nobody"):
            port.start()
        lock.release()
        host.start()
        port.start()
        assert len(served.addresses()) == 1


class Failures(ConfigurationChangeListener):
    """Waits for objects that fail."""

    def __init__(self, served: ServedBroker) -> None:
        self._failed: Queue[str] = Queue()
        served.broker.add_listener(self, below=True)

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        if new is State.ERRORED:
            self._failed.put(managed.category)

    def wait(self) -> str:
        return self._failed.get(timeout=LONG_S)


def lose_store(served: ServedBroker, name: str, store: Path) -> VirtualHost:
    """Have the host find another file in the place of its store's."""
    host = next(each for each in running_hosts(served.broker) if each.name == name)
    copied = store.with_suffix(".copy")
    copied.write_bytes(store.read_bytes())
    copied.replace(store)
    with pytest.raises(ResourceError):
        for number in count():  # who has just looked at the file believes it for some milliseconds
            host.queues.manager.create(f"new {number}")
    return host


def test_a_host_that_lost_its_store_fails_and_the_port_over_it_closes(folder: Path, store: Path) -> None:
    with opened(folder) as served:
        (port,) = served.broker.children("port")
        assert isinstance(port, StompPort)
        (address,) = served.addresses()
        failures, told = Failures(served), Queue[str]()
        connection = ConnectionFactory(f"{address}?reconnect=no").create_connection()
        connection.exception_listener = lambda error: told.put(str(error))
        connection.start()
        host = lose_store(served, "shop", store)
        assert [failures.wait(), failures.wait()] == ["virtual_host", "port"]
        assert "has lost its store" in told.get(timeout=LONG_S)
        connection.close()
        assert "start the broker again" in str(host.snapshot.error)
        assert "would serve nobody" in str(port.snapshot.error)
        assert served.addresses() == []
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
        assert not host.snapshot.record.is_stopped, "it was no operator"
        host.start()
        port.start()
        assert len(served.addresses()) == 1


@pytest.mark.parametrize(
    ("query", "told"), [("", "you named no virtual host"), ("&virtual_host=mallory", "no virtual host 'mallory' here")]
)
def test_who_names_none_of_several_hosts_is_told_how_to_name_one(folder: Path, query: str, told: str) -> None:
    with opened(folder) as served:
        node = served.broker.create_child("virtual_host_node", {"name": "other", "type": "memory"})
        node.create_child("virtual_host", {"name": "other"})
        (address,) = served.addresses()
        with pytest.raises(JMSException, match=told) as caught:
            ConnectionFactory(f"{address}?reconnect=no{query}").create_connection()
        assert "name one: ?virtual_host=NAME in the URL" in str(caught.value)
        assert "default_host of this port" in str(caught.value)
        (port,) = served.broker.children("port")
        port.set_attributes({"default_host": "other"})
        port.invoke("restart", {})
        (address,) = served.addresses()
        ConnectionFactory(f"{address}?reconnect=no{query}").create_connection().close()


def test_clients_of_a_host_that_failed_are_led_to_no_other_one(folder: Path, store: Path) -> None:
    with opened(folder) as served:
        node = served.broker.create_child("virtual_host_node", {"name": "other", "type": "memory"})
        node.create_child("virtual_host", {"name": "other"})
        (port,) = served.broker.children("port")
        assert isinstance(port, StompPort)
        hosts = ManagedHosts(port, "")
        assert [hosts.find(name) is not None for name in ("shop", "other", "", "mallory")] == [True, True, False, False]
        failures = Failures(served)
        lose_store(served, "shop", store)
        assert failures.wait() == "virtual_host"
        assert [hosts.find(name) is not None for name in ("shop", "other", "", "mallory")] == [
            False,
            True,
            False,
            False,
        ]
        assert ManagedHosts(port, "shop").find("mallory") is None
        assert port.state is State.ACTIVE
        assert len(served.addresses()) == 1


def test_clients_of_a_host_that_creates_none_on_demand_use_the_queues_that_are_there() -> None:
    with stored_broker(None, create_on_demand=False) as served:
        make_queue(served, name="there")
        with ConnectionFactory(f"stomp://127.0.0.1:{port_of(served)}").create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            session.create_producer(session.create_queue("there")).send(session.create_text_message("x"))
            assert session.create_consumer(session.create_queue("there")).receive(10_000) is not None
            assert session.create_consumer(session.create_topic("topics need nobody")).receive_no_wait() is None
            with pytest.raises(InvalidDestinationException, match="creates none on demand"):
                session.create_consumer(session.create_queue("missing"))
            with pytest.raises(InvalidDestinationException, match="creates none on demand"):
                session.create_producer(session.create_queue("missing")).send(session.create_text_message("x"))
