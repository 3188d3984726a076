"""How mistakes in the arguments of a command are told, and what help says of commands. It needs the extra `cli`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from pyjms.spi.words import plain_words

__all__ = ["PlainlyTold"]

_LONGEST = 1_000
"""So many characters of a sentence are shown: all."""


class PlainlyTold(TyperGroup):
    """A group of commands: what is wrong with an argument of a command below it is told in plain words, and commands in whole sentences.

    Some versions of typer read arguments by pydantic, and say what that says: ``Value error, 'x' is not one of 'text', 'map'``.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands into the help, each with its first sentence; where that is long, it goes on beneath."""
        known = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, each.get_short_help_str(_LONGEST)) for name, each in known if each is not None and not each.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Do the command that is asked for. Raises `typer.BadParameter`, and whatever the command raises."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain_words(error.message)
            raise
