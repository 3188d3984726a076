"""The broker as a whole: what its ports, its virtual hosts and who may do what have in common."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.version import installed_version
from pyjms_provider.model.attributes import Attributes, attribute
from pyjms_provider.model.configured import Startable
from pyjms_provider.model.errors import NotChangeableError
from pyjms_provider.model.statistics import StatisticKind, statistic

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.stores.configuration_contract import ObjectRecord

_PROC: Final = Path("/proc/self")


def free_bytes(place: Path) -> int | None:
    """Return how much room is left on the disk of a folder, which may not be there yet; None: the system does not tell."""
    whole = place.resolve()
    there = next((each for each in (whole, *whole.parents) if each.exists()), whole)
    try:
        return shutil.disk_usage(there).free
    except OSError:
        return None


def resident_bytes() -> int | None:
    """Return how much memory the process takes; None: the system does not tell."""
    try:
        pages = (_PROC / "statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def open_file_count() -> int | None:
    """Return how many files and connections the process has open; None: the system does not tell."""
    try:
        return len(os.listdir(_PROC / "fd"))  # noqa: PTH208 -- one call, whatever their number
    except OSError:
        return None


def open_file_limit() -> int | None:
    """Return how many it may have; None: any number, or the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else most


class BrokerAttributes(Attributes):
    """What can be chosen for the broker."""

    login_notice: str | None = attribute(
        "Shown to everybody who is about to log in, as an operator.", default=None, max_length=2000
    )


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
        """Refuse it: the process would go on without a port, and nobody could undo it."""
        raise NotChangeableError(f"{self.path} cannot be deleted; end its process, or delete what it holds one by one")

    @statistic("How long it has been open.", unit="ms", kind=StatisticKind.COUNTER)
    def uptime_ms(self) -> int:
        """How long it has been open."""
        return int(self.clock.monotonic_ms() - self._opened_ms)

    @statistic("The version of pyjms.")
    def version(self) -> str:
        """The version of pyjms."""
        return installed_version()

    @statistic("The interpreter and the system that it runs on.")
    def platform(self) -> str:
        """The interpreter and the system."""
        return f"{platform.python_implementation()} {platform.python_version()}, {platform.platform(terse=True)}"

    @statistic("The number of its process.")
    def process_id(self) -> int:
        """The number of its process."""
        return os.getpid()

    @statistic("Memory of its process that is in use.", unit="bytes")
    def memory_bytes(self) -> int | None:
        """How much of the machine's memory its process takes; None: this system does not tell."""
        return resident_bytes()

    @statistic("Files and connections that its process has open.", unit="files")
    def open_files(self) -> int | None:
        """How many there are; None: this system does not tell."""
        return open_file_count()

    @statistic("How many files and connections its process may have open.", unit="files")
    def open_files_max(self) -> int | None:
        """How many there may be; None: as many as it likes, or this system does not tell."""
        return open_file_limit()

    @statistic("Room that is left on the disk of its working directory.", unit="bytes")
    def disk_free_bytes(self) -> int | None:
        """How much is left; None: this system does not tell."""
        return free_bytes(Path(self.variable("pyjms.work_dir") or os.curdir))

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "model_version": 1}
