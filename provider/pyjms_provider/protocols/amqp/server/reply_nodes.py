"""The nodes that answer requests, and where a connection has their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.amqp.performatives import Source, Target

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address

MANAGEMENT: Final = "$management"
"""The queue that takes requests of management."""
CBS: Final = "$cbs"
"""The node that takes tokens (claims-based security)."""


class ReplyNodes:
    """The links of one connection on which answers come. The connection's thread."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str | None], Address] = {}

    def add(self, node: str, target: str | None, address: Address) -> None:
        """Have answers of `node` for `target` go to a temporary queue."""
        self._nodes[node, target] = address

    def remove(self, address: Address) -> None:
        """Give up a temporary queue."""
        self._nodes = {key: each for key, each in self._nodes.items() if each != address}

    def find(self, node: str, reply_to: Any) -> Address | None:
        """Return where the answer to a request goes; None: no link of the connection is meant.

        Clients of Azure leave `reply-to` out: the link that was attached last is meant.
        """
        if not self._nodes:
            return None
        if reply_to is not None:
            return self._nodes.get((node, reply_to))
        found = [address for (each, _), address in self._nodes.items() if each == node]
        return found[-1] if found else None


def reply_node_of(source: Any, target: Any) -> str | None:
    """Return the node whose answers a client's receiver is for; None: it is another link."""
    if not isinstance(source, Source) or source.distribution_mode == "copy":
        return None
    if source.address == CBS:
        return CBS
    # Without an address of its target it is a consumer of the queue.
    named = isinstance(target, Target) and target.address
    return MANAGEMENT if source.address == MANAGEMENT and named else None
