"""Arguments of commands: error texts, spans of time, and passwords. It needs the extra `cli`.

Spans are ``500ms``, ``30s``, ``5m``, ``2h``, ``1d``. Passwords come from a file, from the environment, or as typed; never from the command
line, which other users of the machine can see. The commands of pyjms and those of the bundled broker use it.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup

from pyjms.spi.errors import ProviderError
from pyjms.spi.words import plain_words

__all__ = ["VARIABLE", "NoPasswordError", "PlainlyTold", "read_password", "span_ms", "span_s"]


_LONGEST = 1_000
"""The most characters of a sentence that are shown: all."""
_OTHER_SPELLINGS: Final = {
    "--most": "--limit",  # of pyjms 0.1
    "--listed": "--limit",  # of pyjms 0.1
    "--messages": "--count",  # of pyjms 0.1
    "--max": "--limit",
}
"""Names of options that are accepted for another option, if a command has that and none of this name; help does not show them."""
_ALIKE: Final = {"--count": "--limit", "--limit": "--count"}
"""The same for the two options of a number of messages: the exact number, and the most."""
_RENAMED: Final = {"--limit": ("--timeout", "a time limit is --timeout, with a unit, such as --timeout 30s")}
"""Options of pyjms 0.1 whose values mean something else today, each with the option that a command has instead, and the advice for the user."""


class PlainlyTold(TyperGroup):
    """A group of commands that reports wrong arguments in plain words, and lists its commands with whole sentences.

    Some versions of typer read arguments by pydantic, and show its texts: ``Value error, 'x' is not one of 'text', 'map'``.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands into the help, each with its first sentence, continued on the next lines if it is long."""
        known = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, each.get_short_help_str(_LONGEST)) for name, each in known if each is not None and not each.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the requested command with its arguments; other spellings of its options are replaced by its own.

        Raises `typer.BadParameter` for an option that has another name and another meaning today.
        """
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else _own_spellings(command, rest)

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command. Raises `typer.BadParameter`, and the errors of the command."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain_words(error.message)
            raise


def _own_spellings(command: Any, arguments: list[str]) -> list[str]:
    """Return the arguments of a command with its own names of the options. Raises `typer.BadParameter`."""
    options = {name: each for each in command.params for name in each.opts if name.startswith("--")}
    written: list[str] = []
    is_value = False
    for place, argument in enumerate(arguments):
        # The value of an option stays as it is, though it may look like an option itself.
        if is_value or not argument.startswith("--"):
            written.append(argument)
            is_value = False
            continue
        # After this argument there are no options (POSIX).
        if argument == "--":
            return [*written, *arguments[place:]]
        name, equals, value = argument.partition("=")
        name = _own_spelling(name, options)
        written.append(f"{name}{equals}{value}")
        # The value of an option follows an equals sign, or is the next argument.
        is_value = not equals and name in options and not getattr(options[name], "is_flag", False)
    return written


def _own_spelling(name: str, options: dict[str, Any]) -> str:
    if name in options:
        return name
    for other in (_OTHER_SPELLINGS.get(name), _ALIKE.get(name)):
        if other in options:
            return str(other)
    today, advice = _RENAMED.get(name, (None, ""))
    if today in options:
        raise typer.BadParameter(f"{name} is not what it was called before: {advice}")
    return name


VARIABLE: Final = "PYJMS_PASSWORD"


class NoPasswordError(ProviderError):
    """There is no password, and no terminal to ask for it."""

    code = "PYJMS-PASSWORD"


def read_password(user: str, file: Path | None, *, is_new: bool = False) -> str:
    """Return a user's password: from a file's first line, from the environment, or as it is typed; a new one is typed twice.

    Raises `NoPasswordError`, and the errors of reading the file.
    """
    if file is not None:
        lines = file.read_text(encoding="utf-8").splitlines()
        if not lines or not lines[0]:
            raise NoPasswordError(f"{file} is empty; write the password in its first line")
        return lines[0]
    # A variable and a file are hidden from the machine's other users, who can read the arguments of every process.
    found = os.environ.get(VARIABLE)
    if found:
        return found
    if not sys.stdin.isatty():
        raise NoPasswordError(f"no password for {user}: set {VARIABLE}, or name a --password-file")
    return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=is_new, err=True))


_UNITS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60000),
    **dict.fromkeys(("h", "hour", "hours"), 3600000),
    **dict.fromkeys(("d", "day", "days"), 86400000),
}
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*([a-z]*)")


def span_ms(value: str | int) -> int:
    """Return a span in milliseconds, which a default is already. Raises `typer.BadParameter`.

    A number alone is refused, but for 0: it would be seconds to some people and milliseconds to others.
    """
    if isinstance(value, int):
        return value
    text = value.strip()
    match = _SPAN.fullmatch(text.lower())
    # Some people would read a bare number as seconds, others as milliseconds; 0 is the same to both.
    if match is not None and not match[2] and float(match[1]) != 0:
        raise typer.BadParameter(f"{text} has no unit; write {text}s for seconds, or {text}ms for milliseconds")
    unit = None if match is None else _UNITS.get(match[2] or "ms")
    if match is None or unit is None:
        raise typer.BadParameter(f"{text!r} is no span of time; write 500ms, 30s, 5m, 2h or 1d")
    return round(float(match[1]) * unit)


def span_s(value: str | float) -> float:
    """Return a span in seconds, which a default is already. Raises `typer.BadParameter` as `span_ms`."""
    return span_ms(value) / 1000 if isinstance(value, str) else value
