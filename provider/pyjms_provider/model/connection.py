"""Connections, their sessions and consumers as operators see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from pyjms.spi.envelope import ConnectionId
from pyjms_provider.clients.observing import ConnectionView, ConsumerView, SessionView, look_at
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.model.children import ChildSource
from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.observed import MadeOnDemand, ObservedObject
from pyjms_provider.model.operations import operation
from pyjms_provider.model.statistics import statistic

if TYPE_CHECKING:
    from pyjms_provider.broker import Client
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["ClientConnection", "ClientConsumer", "ClientSession"]


class ClientConnection(ObservedObject):
    """A connection, of this process or through a port; its name is its id."""

    category = "connection"

    def _client(self) -> Client:
        found = self.host.embedded.clients().get(ConnectionId(self.name))
        if found is None:
            raise UnknownObjectError(f"{self.host.path} has no connection {self.name!r}: it has closed")
        return found

    def view(self) -> ConnectionView:
        """Return what there is to see of it. Raises `UnknownObjectError`."""
        handle = self._client().handle
        if isinstance(handle, VmConnection):
            return look_at(handle)
        return ConnectionView(client_id=None, is_started=True, sessions=())

    def sources(self) -> Mapping[str, ChildSource]:
        return {
            "session": MadeOnDemand("session", lambda: [each.name for each in self.view().sessions], self._make_session)
        }

    def _make_session(self, name: str) -> ManagedObject | None:
        is_there = any(each.name == name for each in self.view().sessions)
        return ClientSession(self, name) if is_there else None

    @statistic("Who is connected; empty: nobody logged in, as within one process.")
    def user(self) -> str:
        """Who is connected."""
        return self._client().user

    @statistic(
        "The user name that it sent to a port which lets in everybody and checks none; null: none, or it was checked."
    )
    def unchecked_login(self) -> str | None:
        """The user name that it sent and nobody checked."""
        principal = self._client().principal
        return None if principal is None else principal.unchecked_login

    @statistic("Where it comes from; empty: from this process.")
    def address(self) -> str:
        """Where it comes from."""
        return self._client().address

    @statistic("What it speaks.")
    def protocol(self) -> str:
        """What it speaks."""
        return self._client().protocol

    @statistic("When it came, in milliseconds since 1970 UTC.", unit="ms")
    def since_ms(self) -> int:
        """When it came."""
        return self._client().since_ms

    @statistic("Its JMS client id.")
    def client_id(self) -> str | None:
        """Its JMS client id."""
        return self.view().client_id

    @statistic("Whether it is started, so that messages come.")
    def is_started(self) -> bool:
        """Whether it is started."""
        return self.view().is_started

    @statistic("Sessions.", unit="sessions")
    def session_count(self) -> int:
        """How many sessions it has."""
        return len(self.view().sessions)

    @operation("End the connection; its client is told why.")
    def disconnect(
        self,
        reason: Annotated[str, Field(max_length=1000, description="What the client is told.")] = "",
        *,
        by: str = "",
    ) -> None:
        """End it. Raises `UnknownObjectError`."""
        told = f"an operator{f' ({by})' if by else ''} has ended the connection{f': {reason}' if reason else ''}"
        if not self.host.embedded.end_connection(ConnectionId(self.name), told):
            raise UnknownObjectError(f"{self.host.path} has no connection {self.name!r}: it has closed")


class ClientSession(ObservedObject):
    """A session; its name is its number in its connection."""

    category = "session"

    def view(self) -> SessionView:
        """Return what there is to see of it. Raises `UnknownObjectError`."""
        above = self.parent
        assert isinstance(above, ClientConnection)
        for each in above.view().sessions:
            if each.name == self.name:
                return each
        raise UnknownObjectError(f"{above.path} has no session {self.name!r}: it has closed")

    def sources(self) -> Mapping[str, ChildSource]:
        return {
            "consumer": MadeOnDemand(
                "consumer", lambda: [each.name for each in self.view().consumers], self._make_consumer
            )
        }

    def _make_consumer(self, name: str) -> ManagedObject | None:
        is_there = any(each.name == name for each in self.view().consumers)
        return ClientConsumer(self, name) if is_there else None

    @statistic("Whether it is transacted.")
    def is_transacted(self) -> bool:
        """Whether it is transacted."""
        return self.view().is_transacted

    @statistic("Whether it has an open transaction with work in it.")
    def has_open_transaction(self) -> bool:
        """Whether it has an open transaction."""
        return self.view().is_open

    @statistic("Messages that it received and has not settled.", unit="messages")
    def held(self) -> int:
        """How many messages it holds."""
        return self.view().held

    @statistic("Consumers.", unit="consumers")
    def consumer_count(self) -> int:
        """How many consumers it has."""
        return len(self.view().consumers)


class ClientConsumer(ObservedObject):
    """A consumer; its name is its number in its session."""

    category = "consumer"

    def _view(self) -> ConsumerView:
        above = self.parent
        assert isinstance(above, ClientSession)
        for each in above.view().consumers:
            if each.name == self.name:
                return each
        raise UnknownObjectError(f"{above.path} has no consumer {self.name!r}: it has closed")

    @statistic("What it receives from.")
    def source(self) -> str:
        """What it receives from: a queue's address, or a subscription's name."""
        return self._view().source

    @statistic("What it selects.")
    def selector(self) -> str | None:
        """What it selects."""
        return self._view().selector

    @statistic("Its priority among the consumers of the queue.")
    def priority(self) -> int:
        """Its priority."""
        return self._view().priority

    @statistic("Whether it only looks.")
    def is_browser(self) -> bool:
        """Whether it only looks."""
        return self._view().is_browser
