"""pytest plugin: pytest-xdist's distribution by groups, without the work that grows with the square of the number of tests.

Its own looks, after each test, through all that the worker has ever been given, and searches all tests for the next one: for twenty
thousand of them, that is half a minute of a processor, in which workers wait for the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


class GroupScheduling(LoadGroupScheduling):  # type: ignore[misc]  # pytest-xdist is not typed
    """Forgets a group once all of its tests are done, and finds tests by their names."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._places: dict[WorkerController, dict[str, int]] = {}

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        self._places[node] = {name: place for place, name in enumerate(collection)}

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        name = self.registered_collections[node][item_index]
        scope = self._split_scope(name)
        unit = self.assigned_work[node][scope]
        unit[name] = True
        if all(unit.values()):
            del self.assigned_work[node][scope]
        self._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = unit
        places = self._places[node]
        node.send_runtest_some([places[name] for name, is_done in unit.items() if not is_done])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """Take the place of pytest-xdist's own."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadgroup" else None
