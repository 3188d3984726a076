"""The command ``pyjms``. It needs the extra `cli`, which brings typer and rich.

Others add commands by entry points of the group ``pyjms.commands``: the name is that of the command, and the object a function
without arguments that returns a `typer.Typer`.
"""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Final

from pyjms.commands import COMMANDS, epilog_of
from pyjms.spi.version import installed_version

if TYPE_CHECKING:
    import typer

__all__ = ["main"]

GROUP: Final = "pyjms.commands"
_HELP: Final = frozenset({"--help"})
_GROUP_MAKER: Final = "commands"
_OWN: Final = {
    "demo": "pyjms.demo.command:demo",
    **COMMANDS,
    "history": f"pyjms.history.command:{_GROUP_MAKER}",
    "pipeline": f"pyjms.spark.commands:{_GROUP_MAKER}",
}

MISSING_EXTRA = (
    "The command pyjms needs the packages typer and rich, which are not installed ({missing} is missing). "
    "Install them with: pip install 'pyjms[cli]'"
)


def main() -> None:
    """Run the command line of this process."""
    try:
        import rich  # noqa: F401  the first to know that it is missing
        import typer
    except ModuleNotFoundError as error:
        sys.exit(MISSING_EXTRA.format(missing=error.name))
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
        version: bool = typer.Option(
            False, "--version", help="Print the version.", is_eager=True, callback=show_version
        ),
    ) -> None:
        """The Java Message Service (JMS 1.1) for Python."""

    _add_own_commands(app)
    for entry_point in metadata.entry_points(group=GROUP):
        _add_commands(app, entry_point)
    try:
        with interruptible():
            app()
    except OSError as error:
        if not is_of_writing(error):
            raise
        end_output(error)
        sys.exit(FAILED)
    except SystemExit as ended:
        unwritten = flush_error()
        if unwritten is None:
            raise
        end_output(unwritten)
        sys.exit(ended.code or FAILED)


def _add_own_commands(app: typer.Typer) -> None:
    """Add the command that is asked for, or all, so that help shows them and a slip of the pen is told."""
    from pyjms.spi.arguments import PlainlyTold

    asked = sys.argv[1:2]
    wanted = asked if asked and asked[0] in _OWN else list(_OWN)
    for name in wanted:
        module_name, _, attribute = _OWN[name].partition(":")
        module = import_module(module_name)
        if attribute == _GROUP_MAKER:
            app.add_typer(module.commands(), name=name, cls=PlainlyTold)
            continue
        epilog = epilog_of(getattr(module, "EXAMPLES", ()))
        app.command(name, epilog=epilog)(getattr(module, attribute))


def _add_commands(app: typer.Typer, entry_point: metadata.EntryPoint) -> None:
    """Add the commands of a plug-in when they, or the list of all commands, are asked for: they may need much."""
    import typer

    from pyjms.spi.arguments import PlainlyTold

    name, asked = entry_point.name, sys.argv[1:2]
    if asked and asked[0] not in {name, *_HELP}:
        return
    try:
        commands = entry_point.load()()
    except ModuleNotFoundError as error:
        advice = f"it needs the package {error.name}; install it with: pip install 'pyjms[{name}]'"
        commands = typer.Typer(help=f"Cannot be used here: {advice}", invoke_without_command=True)

        @commands.callback(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
        def refuse() -> None:
            sys.exit(f"pyjms {name} cannot be used here: {advice}")

    app.add_typer(commands, name=name, cls=PlainlyTold)
