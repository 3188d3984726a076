"""The commands of ``pyjms`` for any broker: send, receive, browse, purge, move, dead-letters, stats and bench on the
public API alone, and story. Also `port`.

A command's module is imported when the command, or help, is requested.
"""

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["COMMANDS", "epilog_of"]

COMMANDS: Final = {
    "send": "pyjms.commands.send:send",
    "receive": "pyjms.commands.receive:receive",
    "browse": "pyjms.commands.browse:browse",
    "purge": "pyjms.commands.moving:purge",
    "move": "pyjms.commands.moving:move",
    "dead-letters": "pyjms.commands.dead_letters:commands",
    "stats": "pyjms.commands.stats:stats",
    "story": "pyjms.commands.story:story",
    "bench": "pyjms.commands.bench:bench",
    "port": "pyjms.commands.port:port",
    "forward": "pyjms.commands.forward:forward",
    "flow": "pyjms.commands.flow:commands",
    "route": "pyjms.commands.route:commands",
}
"""By the command's name, ``module:function``."""


def epilog_of(examples: Sequence[str] | Mapping[str, Sequence[str]], command: str = "") -> str | None:
    """Return the epilog of a command's help: its examples as typed, from a table those of `command`; None if it has
    none.
    """
    if isinstance(examples, Mapping):
        examples = examples[command]
    return "\n".join(("\b", "Examples:", *(f"  {each}" for each in examples))) if examples else None
