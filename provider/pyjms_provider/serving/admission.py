"""What the log says of a port that lets in everybody, when it opens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyjms_provider.transport.listener import is_reached_from_elsewhere

if TYPE_CHECKING:
    from pyjms_provider.model.port import Port

_log = logging.getLogger(__name__)


def log_who_comes_in(port: Port) -> None:
    """Log that a port lets in everybody, if it does; a warning if other machines reach it."""
    if not port.lets_in_everybody:
        return
    if is_reached_from_elsewhere(port.chosen.host):
        _log.warning(
            "PYJMS-SECURITY-8 %s lets in everybody who reaches it, from other machines too, and checks no login",
            port.path,
        )
    else:
        _log.info("PYJMS-SECURITY-8 %s lets in everybody on this machine, and checks no login", port.path)
