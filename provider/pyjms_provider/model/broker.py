"""The top of the tree: `SystemConfig`, which has the store, the time and the services, and `Broker` below it.

A ``vm://`` broker that runs in this process gets the same tree on demand, from `manage`, so that ``vm://`` stays light.
Nothing of that tree is stored, except what the broker's own store has: queues and their policies.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import NAMESPACE_URL, uuid5

from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.words import installed_version
from pyjms_provider.broker import running_broker
from pyjms_provider.model.attributes import Attributes, attribute
from pyjms_provider.model.configuration.writer import MemoryConfigurationStore
from pyjms_provider.model.configuration_thread import ConfigurationThread
from pyjms_provider.model.configured import ManagingObject, Startable
from pyjms_provider.model.contracts import Services
from pyjms_provider.model.errors import NotChangeableError
from pyjms_provider.model.managed import Event, State
from pyjms_provider.model.operations import StatisticKind, statistic
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.model.virtual_host import VirtualHost
    from pyjms_provider.security.secrets import SecretBox
    from pyjms_provider.stores.configuration_contract import ConfigurationStore


_PROC: Final = Path("/proc/self")


def free_bytes(place: Path) -> int | None:
    """Return the free bytes on the disk of a folder, which may not exist yet; None: unknown on this system."""
    whole = place.resolve()
    # A folder that is not made yet will be on the disk of its nearest parent.
    there = next((each for each in (whole, *whole.parents) if each.exists()), whole)
    try:
        # What is free for this user, without the part that some file systems reserve for root.
        return shutil.disk_usage(there).free
    except OSError:
        return None


def resident_bytes() -> int | None:
    """Return the resident memory of the process in bytes; None: unknown on this system."""
    try:
        # Linux only: the second number of /proc/self/statm is the resident set, in pages (proc(5)).
        pages = (_PROC / "statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def open_file_count() -> int | None:
    """Return the number of files and connections that the process has open; None: unknown on this system."""
    try:
        return len(os.listdir(_PROC / "fd"))  # noqa: PTH208 -- one call for any number
    except OSError:
        return None


def open_file_limit() -> int | None:
    """Return the process's limit of open files; None: unlimited, or unknown on this system."""
    try:
        # Imported here: the module exists on Unix only.
        import resource
    except ImportError:  # Windows
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else most


class BrokerAttributes(Attributes):
    """The attributes of the broker."""

    login_notice: str | None = attribute("Shown at the log-in of operators.", default=None, max_length=2000)


class Broker(Startable):
    """The one child of the system configuration."""

    category = "broker"
    attributes_class = BrokerAttributes

    def __init__(self, parent: ManagedObject | None, record: ObjectRecord) -> None:
        super().__init__(parent, record)
        self._opened_ms = 0.0

    def _on_open(self) -> None:
        self._opened_ms = self.clock.monotonic_ms()

    def delete(self, *, by: str = "") -> None:
        """Refuse: the process would run on without a port, and no operator could undo it."""
        raise NotChangeableError(f"{self.path} cannot be deleted; end its process, or delete what it holds one by one")

    @statistic("How long it has been open.", unit="ms", kind=StatisticKind.COUNTER)
    def uptime_ms(self) -> int:
        # By the monotonic clock: setting the time of day must not change how long the broker is open.
        return int(self.clock.monotonic_ms() - self._opened_ms)

    @statistic("The version of pyjms.")
    def version(self) -> str:
        return installed_version()

    @statistic("The interpreter and the system that it runs on.")
    def platform(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}, {platform.platform(terse=True)}"

    @statistic("The number of its process.")
    def process_id(self) -> int:
        return os.getpid()

    @statistic("Memory of its process that is in use.", unit="bytes")
    def memory_bytes(self) -> int | None:
        """The resident memory of its process, in bytes; None: unknown on this system."""
        return resident_bytes()

    @statistic("Files and connections that its process has open.", unit="files")
    def open_files(self) -> int | None:
        """The number of open files and connections; None: unknown on this system."""
        return open_file_count()

    @statistic("How many files and connections its process may have open.", unit="files")
    def open_files_max(self) -> int | None:
        """The limit of open files; None: unlimited, or unknown on this system."""
        return open_file_limit()

    @statistic("Room that is left on the disk of its working directory.", unit="bytes")
    def disk_free_bytes(self) -> int | None:
        """The free bytes on its disk; None: unknown on this system."""
        return free_bytes(Path(self.variable("pyjms.work_dir") or os.curdir))

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "model_version": 1}


_ID = ObjectId(uuid5(NAMESPACE_URL, "pyjms:system_config"))


class SystemConfig(ManagingObject):
    """The root of the tree, made by `opened` from the settings of the command line or the application; its context is the system context."""

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
        """`store` None: nothing is stored; `secrets`: encrypts secret attributes in the store; `clock` None: the system's.

        `adopted`: a running broker, which becomes the virtual host of its name.
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
        """Make the system configuration, recover the objects in its store, and create a Broker if there is none.

        `broker`: the attributes of a new Broker; `choices`: as for the class. Raises `StoreError` when the store cannot be
        opened; single objects that cannot be opened are ERRORED instead.
        """
        from pyjms_provider.model.plugins import load_plugins

        # Before the store is read: its objects may be of what packages bring.
        load_plugins()
        # Also after Ctrl-C: the store would stay held otherwise.
        with ExitStack() as undo:
            system = cls(store, **choices)
            undo.callback(system.close)
            # Without a time limit: stores below may have to be recovered, which takes as long as they are large.
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
        found = next(self.children(), None)
        return found if isinstance(found, Broker) else None

    @property
    def broker(self) -> Broker:
        """The broker."""
        found = self.find_broker()
        assert found is not None, "opened() makes one"
        return found

    def close(self) -> None:
        """Close the broker and all below it, and end the configuration thread. May be repeated."""
        try:
            if self.state is not State.CLOSED:
                super().close()
        finally:
            # Last, and in any case: closing the objects needs the thread.
            self._thread.stop()


def manage(broker: str, *, context: Mapping[str, str] | None = None) -> SystemConfig:
    """Return a new tree for ``vm://BROKER``; `close` it when it is no longer needed, which leaves the broker alone.

    Raises `ResourceError` if the broker does not run.
    """
    running = running_broker(broker)
    if running is None:
        raise ResourceError(f"there is no broker {broker!r} in this process; connect to vm://{broker} first")
    with ExitStack() as undo:
        system = undo.enter_context(
            closing(SystemConfig.opened(clock=running.clock, context=context, broker={"name": broker}, adopted=running))
        )
        # In memory: the tree of a vm:// broker ends with `close`.
        node = system.broker.create_child("virtual_host_node", {"name": broker, "type": "memory"})
        node.create_child("virtual_host", {"name": broker})
        undo.pop_all()
    return system


def managed_host(system: SystemConfig) -> VirtualHost:
    """Return the one virtual host of a tree that `manage` made."""
    from pyjms_provider.model.virtual_host import VirtualHost

    node = next(iter(system.broker.children("virtual_host_node")))
    host = next(iter(node.children("virtual_host")))
    assert isinstance(host, VirtualHost)
    return host
