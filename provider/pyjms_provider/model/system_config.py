"""The root of the tree: where the broker's configuration is, the time, and what the rest of the process lends the model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self
from uuid import NAMESPACE_URL, uuid5

from pyjms.spi.clock import Clock, SystemClock
from pyjms_provider.model.configuration.memory import MemoryConfigurationStore
from pyjms_provider.model.configuration_thread import ConfigurationThread
from pyjms_provider.model.life_cycle import Event, State
from pyjms_provider.model.managing import ManagingObject
from pyjms_provider.model.services import Services
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.model.broker import Broker
    from pyjms_provider.security.secrets import SecretBox
    from pyjms_provider.stores.configuration_contract import ConfigurationStore

_ID = ObjectId(uuid5(NAMESPACE_URL, "pyjms:system_config"))


class SystemConfig(ManagingObject):
    """Made by `open`, in code, from what the command line or the application says; its context is the system context."""

    category = "system_config"

    def __init__(
        self,
        store: ConfigurationStore | None = None,
        *,
        context: Mapping[str, str] | None = None,
        secrets: SecretBox | None = None,
        clock: Clock | None = None,
        services: Services | None = None,
        adopted: EmbeddedBroker | None = None,
    ) -> None:
        """`store` None: nothing is kept; `secrets`: encrypts what is secret in it; `clock` None: the system's.

        `adopted`: a broker that runs already, and that the virtual host of its name is to be.
        """
        attributes = {"name": "system", "context": dict(context or {}), "durable": False}
        super().__init__(None, ObjectRecord(id=_ID, category=self.category, parent=None, attributes=attributes))
        self._chosen = store or MemoryConfigurationStore()
        self._secrets = secrets
        self._clock = clock or SystemClock()
        self._thread = ConfigurationThread("broker", self._clock)
        self._services = services or Services()
        self.adopted = adopted

    @classmethod
    def opened(
        cls, store: ConfigurationStore | None = None, *, broker: Mapping[str, Any] | None = None, **choices: Any
    ) -> Self:
        """Make it, recover what the store keeps, and make a Broker if there is none, with the attributes `broker`.

        `choices`: as for the class. Raises `StoreError` when the store cannot be opened; what is wrong with single objects
        is told by them: they are ERRORED.
        """
        with ExitStack() as undo:  # also after Ctrl-C: the store is held otherwise
            system = cls(store, **choices)
            undo.callback(system.close)
            system._thread.call(system._open, however_long=True)
            if system.find_broker() is None:
                system.create_child("broker", {"name": "broker", **(broker or {})})
            undo.pop_all()
        return system

    def _open(self) -> None:
        self._resolve()
        self._on_open()
        self._step(Event.OPEN)
        self._open_pending()

    def _make_store(self) -> tuple[ConfigurationStore, SecretBox | None]:
        return self._chosen, self._secrets

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def configuration_thread(self) -> ConfigurationThread:
        return self._thread

    @property
    def services(self) -> Services:
        return self._services

    @property
    def is_durable(self) -> bool:
        return True

    def find_broker(self) -> Broker | None:
        """Return the broker, if there is one."""
        from pyjms_provider.model.broker import Broker

        found = next(self.children(), None)
        return found if isinstance(found, Broker) else None

    @property
    def broker(self) -> Broker:
        """The broker."""
        found = self.find_broker()
        assert found is not None, "opened() makes one"
        return found

    def close(self) -> None:
        """End the broker and all below it, and its configuration thread. May be repeated."""
        try:
            if self.state is not State.CLOSED:
                super().close()
        finally:
            self._thread.stop()
