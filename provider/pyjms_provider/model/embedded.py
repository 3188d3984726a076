"""The tree of a ``vm://`` broker that runs in this process: the same tree as a served broker's, built in code.

The broker itself knows nothing of it, so that ``vm://`` stays light. Nothing of this tree is kept, save what the broker's own
store keeps: queues and their policies.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from pyjms.spi.errors import ResourceError
from pyjms_provider.broker import running_broker
from pyjms_provider.model.system_config import SystemConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms_provider.model.virtual_host import VirtualHost


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
