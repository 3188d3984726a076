"""Ends what a user has open when that user is changed or deleted: log-ins of the console, and connections of clients.

This takes effect at once, not at the next log-in. A change of the user file by another program affects new log-ins only, as the
broker does not learn of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.managed import ConfigurationChangeListener
from pyjms_provider.serving.hosts import running_hosts

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.managed import ManagedObject

_CATEGORY = "user"


class UserWatch(ConfigurationChangeListener):
    """Hears of all users of a broker."""

    def __init__(self, management: Callable[[ManagedObject], ManagementService], synthetic: EmbeddedBroker) -> None:
        """`synthetic`: a virtual host that is not in the tree."""
        self._management = management
        self._synthetic = synthetic

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        if managed.category == _CATEGORY and managed.parent is not None:
            self._end(managed.parent, managed.name, "was changed; log in again")

    def child_removed(self, parent: ManagedObject, child: ManagedObject) -> None:
        if child.category == _CATEGORY:
            self._end(parent, child.name, "was deleted")

    def _end(self, provider: ManagedObject, user_name: str, what: str) -> None:
        self._management(provider).end_sessions(provider.name, user_name)
        for host in (*_running(provider), self._synthetic):
            for connection_id, client in host.clients().items():
                who = client.principal
                if who is not None and (who.provider, who.name) == (provider.name, user_name):
                    host.end_connection(connection_id, f"the user {user_name!r} {what}")


def _running(provider: ManagedObject) -> Iterator[EmbeddedBroker]:
    for each in running_hosts(provider.root):
        with suppress(WrongStateError):  # it stops at this moment, and ends all its connections
            yield each.embedded
