"""``pyjms pipeline``: work on Spark that one machine cannot hold.

A command's module is imported when the command, or help, is requested; none of them imports PySpark until it runs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

import typer

from pyjms.commands import epilog_of

__all__ = ["PIPELINE", "commands"]

PIPELINE: Final = {
    "archive": "pyjms.spark.commands.archive:archive_command",
    "replay": "pyjms.spark.commands.replay:replay_command",
    "route": "pyjms.spark.commands.route:route_command",
    "audit": "pyjms.spark.commands.audit:audit_command",
    "report": "pyjms.spark.commands.report:report_command",
}
"""By the command's name, ``module:function``. A module may have EXAMPLES, which help shows."""


def commands() -> typer.Typer:
    """Return the commands below ``pyjms pipeline``."""
    app = typer.Typer(no_args_is_help=True, help="Pipelines and checks on Spark, on this machine or on a cluster.")
    app.callback()(_pipeline)  # so that a single command keeps its name
    asked = sys.argv[2:3]
    for name in asked if asked and asked[0] in PIPELINE else list(PIPELINE):
        module_name, _, attribute = PIPELINE[name].partition(":")
        module = import_module(module_name)
        app.command(name, epilog=epilog_of(getattr(module, "EXAMPLES", ())))(getattr(module, attribute))
    return app


def _pipeline() -> None:
    """Pipelines and checks on Spark, on this machine or on a cluster."""
