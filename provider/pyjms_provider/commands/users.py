"""``pyjms broker user``: the users of a user file. A running broker sees each change at the next log-in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pyjms.spi.arguments import read_password
from pyjms.spi.terminal import escaped, listing, put_json
from pyjms_provider.commands.telling import AsJson, PasswordFile, errors_told, show

_File: TypeAlias = Annotated[Path, typer.Argument(help="The user file.", metavar="FILE", show_default=False)]
_Name: TypeAlias = Annotated[str, typer.Argument(help="The user.", metavar="NAME", show_default=False)]


def commands() -> typer.Typer:
    """Return the commands below ``pyjms broker user``."""
    app = typer.Typer(no_args_is_help=True, help="Look after the users of a user file.")
    for command in (add, remove, passwd):
        app.command()(command)
    app.command("list")(list_users)
    return app


def add(
    file: _File,
    name: _Name,
    group: Annotated[
        list[str] | None,
        typer.Option(help="A group of the user; may be given several times.", metavar="GROUP", show_default=False),
    ] = None,
    password_file: PasswordFile = None,
) -> None:
    """Add a user, and make the file if there is none. Passwords are kept as argon2id hashes."""
    with errors_told():
        from pyjms_provider.security.user_file import UserFile

        users = UserFile(file)
        users.add(name, read_password(name, password_file, is_new=True), group or ())
    show(f"[green]added[/] {escaped(name)} to {escaped(str(file))}")


def remove(file: _File, name: _Name) -> None:
    """Remove a user."""
    with errors_told():
        from pyjms_provider.security.user_file import UserFile

        UserFile(file).remove(name)
    show(f"[green]removed[/] {escaped(name)} from {escaped(str(file))}")


def passwd(file: _File, name: _Name, password_file: PasswordFile = None) -> None:
    """Give a user another password."""
    with errors_told():
        from pyjms_provider.security.user_file import UserFile

        UserFile(file).alter(name, password=read_password(name, password_file, is_new=True))
    show(f"[green]changed[/] the password of {escaped(name)}")


def list_users(file: _File, as_json: AsJson = False) -> None:
    """List users with their groups."""
    with errors_told():
        from pyjms_provider.security.user_file import UserFile

        users = UserFile(file).users()
    if as_json:
        put_json([{"name": user.name, "groups": sorted(user.groups)} for user in users])
        return
    table = listing("user", "groups")
    for user in users:
        table.add_row(escaped(user.name), escaped(", ".join(sorted(user.groups))))
    show(table)
