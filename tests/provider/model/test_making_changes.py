"""Changes of the tree from many threads: those below one virtual host, and those below the broker, each one after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_ident

import pytest

from pyjms_provider.model.managed import ConfigurationChangeListener, ManagedObject
from tests.provider.model.world import Folder

PATIENCE_S = 20


class Slow(ConfigurationChangeListener):
    """Is held up while the first change is told, and records when each begins and ends."""

    def __init__(self) -> None:
        self.has_begun, self.goes_on = Event(), Event()
        self.told: list[str] = []

    def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
        self.told.append(f"{child.name} begins")
        if not self.has_begun.is_set():
            self.has_begun.set()
            assert self.goes_on.wait(PATIENCE_S)
        self.told.append(f"{child.name} ends")


@pytest.mark.realises("BJ-THR-2")
def test_changes_below_a_host_wait_for_each_other_and_for_no_other_hosts(folder: Folder) -> None:
    host = folder.host()
    assert folder.system is not None
    broker = folder.system.broker
    node = broker.create_child("virtual_host_node", {"name": "other", "type": "memory"})
    other = node.create_child("virtual_host", {"name": "play"})
    slow = Slow()
    host.add_listener(slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(host.create_child, "queue", {"name": "first"})
        assert slow.has_begun.wait(PATIENCE_S)
        second = pool.submit(host.create_child, "queue", {"name": "second"})
        # The change of the first host is not done: these two are made by other threads.
        other.create_child("queue", {"name": "q"})
        broker.set_attributes({"description": "changed meanwhile"})
        assert not second.done()
        slow.goes_on.set()
        first.result(PATIENCE_S)
        second.result(PATIENCE_S)
    assert slow.told == ["first begins", "first ends", "second begins", "second ends"]


class Whose(ConfigurationChangeListener):
    """Records which objects' threads make the changes."""

    def __init__(self) -> None:
        self.threads: dict[str, set[int]] = {}
        self.of_others: list[str] = []
        """Objects whose creation another thread has made than that of the nearest ancestor that has one."""

    def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
        self.threads.setdefault(child.category, set()).add(get_ident())
        if not parent.configuration_thread.is_current:
            self.of_others.append(child.path)


@pytest.mark.realises("BJ-THR-2")
def test_whichever_thread_asks_the_nearest_ancestors_own_makes_the_change(folder: Folder) -> None:
    host = folder.host()
    assert folder.system is not None
    broker = folder.system.broker
    whose = Whose()
    broker.add_listener(whose, below=True)

    def change(number: int) -> int:
        host.create_child("queue", {"name": f"q{number}"})
        broker.create_child("virtual_host_node", {"name": f"n{number}", "type": "memory"})
        return get_ident()

    with ThreadPoolExecutor(8) as pool:
        callers = set(pool.map(change, range(80)))
    assert host.child_names("queue") == sorted(f"q{number}" for number in range(80))
    assert len(broker.child_names("virtual_host_node")) == 81, "none was lost, though the tables have no lock"
    of_host, of_broker = whose.threads["queue"], whose.threads["virtual_host_node"]
    assert not whose.of_others
    assert len(of_host) == len(of_broker) == 1
    assert of_host.isdisjoint(of_broker)
    assert callers.isdisjoint(of_host | of_broker)
