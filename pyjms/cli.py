"""The command ``pyjms``.

Others add commands by entry points of the group ``pyjms.commands``: the name is that of the command, and the object a function
without arguments that returns a `typer.Typer`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from pyjms.commands import COMMANDS, epilog_of
from pyjms.spi.registry import entry_points
from pyjms.spi.words import DISTRIBUTION, installed_version

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import typer

__all__ = ["main"]

GROUP: Final = "pyjms.commands"
_VERSION: Final = "--version"
_GROUP_MAKER: Final = "commands"
_OWN: Final = {
    "demo": "pyjms.demo.command:demo",
    **COMMANDS,
    "history": f"pyjms.history.command:{_GROUP_MAKER}",
    "pipeline": f"pyjms.spark.commands:{_GROUP_MAKER}",
}


def main() -> None:
    """Run the command line of this process."""
    import typer

    from pyjms.commands.signals import interruptible
    from pyjms.spi.arguments import PlainlyTold
    from pyjms.spi.terminal import FAILED, end_output, flush_error, is_of_writing

    app = typer.Typer(
        name="pyjms",
        cls=PlainlyTold,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    def show_version(asked: bool) -> None:
        if asked:
            typer.echo(f"pyjms {installed_version()}")
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = typer.Option(False, _VERSION, help="Print the version.", is_eager=True, callback=show_version),
    ) -> None:
        """The Java Message Service (JMS 2.0) for Python."""

    _add_asked(app, sys.argv[1] if len(sys.argv) > 1 else "")
    try:
        with interruptible():
            app()
    except OSError as error:
        if not is_of_writing(error):
            raise
        end_output(error)
        sys.exit(FAILED)
    # Python flushes standard output after this point, and would report a full disk by a traceback.
    except SystemExit as ended:
        unwritten = flush_error()
        if unwritten is None:
            raise
        end_output(unwritten)
        sys.exit(ended.code or FAILED)


def _add_asked(app: typer.Typer, asked: str) -> None:
    """Add the requested command, or all commands, so that help lists them and a misspelt name gets a suggestion."""
    # Only the requested commands are imported, as imports take much of a command's time.
    if asked == _VERSION:
        return
    if asked in _OWN:
        _add_own_command(app, asked)
        return
    # once, in case an older pyjms is installed, too
    others = {point.name: point for point in entry_points(group=GROUP)}
    if asked in others:
        _add_command_of_others(app, others[asked])
        return
    for name in _OWN:
        _add_own_command(app, name)
    if asked in {"", "--help"}:  # these imports may be slow
        for point in others.values():
            _add_command_of_others(app, point)


def _add_own_command(app: typer.Typer, name: str) -> None:
    from pyjms.spi.arguments import PlainlyTold

    module_name, _, attribute = _OWN[name].partition(":")
    module = import_module(module_name)
    if attribute == _GROUP_MAKER:
        app.add_typer(module.commands(), name=name, cls=PlainlyTold)
        return
    epilog = epilog_of(getattr(module, "EXAMPLES", ()), name)
    app.command(name, epilog=epilog)(getattr(module, attribute))


def _add_command_of_others(app: typer.Typer, entry_point: EntryPoint) -> None:
    import typer

    from pyjms.spi.arguments import PlainlyTold

    name = entry_point.name
    try:
        commands = entry_point.load()()
    # A command whose extra is missing stays listed, and says what to install.
    except ModuleNotFoundError as error:
        of_others = entry_point.dist is not None and entry_point.dist.name != DISTRIBUTION
        wanted = f"{entry_point.dist.name}[{name}]" if of_others and entry_point.dist else f"{DISTRIBUTION}[broker]"
        advice = f"it needs the package {error.name}; install it with: pip install '{wanted}'"
        commands = typer.Typer(help=f"Cannot be used here: {advice}", invoke_without_command=True)

        @commands.callback(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
        def refuse() -> None:
            sys.exit(f"pyjms {name} cannot be used here: {advice}")

    app.add_typer(commands, name=name, cls=PlainlyTold)
