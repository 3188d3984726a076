"""How mistakes in the arguments of a command are told. It needs the extra `cli`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from pyjms.spi.words import plain_words

__all__ = ["PlainlyTold"]


class PlainlyTold(TyperGroup):
    """The outermost group of a command line: what is wrong with an argument of a command below it is told in plain words.

    Some versions of typer read arguments by pydantic, and say what that says: ``Value error, 'x' is not one of 'text', 'map'``.
    """

    def invoke(self, ctx: Any) -> Any:
        """Do the command that is asked for. Raises `typer.BadParameter`, and whatever the command raises."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain_words(error.message)
            raise
