"""The command ``pyjms``. It needs the extra `cli`, which brings typer and rich."""

from __future__ import annotations

import sys
from importlib import metadata

__all__ = ["main"]

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
    from pyjms.demo.command import demo
    from pyjms.history.command import commands as history_commands

    app = typer.Typer(
        name="pyjms", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )

    def show_version(asked: bool) -> None:
        if asked:
            typer.echo(f"pyjms {metadata.version('pyjms')}")
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", help="Print the version.", is_eager=True, callback=show_version
        ),
    ) -> None:
        """The Java Message Service (JMS 1.1) for Python."""

    app.command("demo")(demo)
    app.add_typer(history_commands(), name="history")
    app()
