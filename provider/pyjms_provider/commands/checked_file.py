"""``pyjms broker check``: all problems of a configuration file, with file and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyjms.spi.terminal import FAILED, escaped, note, put_json
from pyjms.spi.words import counted
from pyjms_provider.commands.telling import AsJson, errors_told, show

if TYPE_CHECKING:
    from pyjms_provider.model.checking import Finding

DEFAULT_FILE: Final = Path("broker.toml")
_PLACE: Final = re.compile(r"^(?P<file>.+), line (?P<line>\d+)$")
_HEADER: Final = re.compile(r"^\s*\[")


def context_of(file: Path) -> dict[str, str]:
    """Return the variables that a broker gets with a configuration file: its working folder is that of the file."""
    return {"pyjms.work_dir": str(file.resolve().parent)}


def check(
    file: Annotated[Path, typer.Argument(help="The configuration.", metavar="FILE")] = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Validate a configuration without opening ports or stores, and tell all that is wrong.

    Exit code: 0 nothing is wrong, 1 something is, 2 there is nothing that can be read.
    """
    with errors_told():
        from pyjms_provider.model.checking import check_configuration
        from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
        from pyjms_provider.model.plugins import load_plugins
        from pyjms_provider.security.secrets import SecretBox

        load_plugins()
        records = TomlConfigurationStore(file).read()
        key_file = Path(f"{file}.key")
        secrets = SecretBox.open(key_file) if key_file.exists() else None
        findings = check_configuration(records, context_of(file), secrets)
    lines = file.read_text(encoding="utf-8").splitlines()
    places = [_place(each, file, lines) for each in findings]
    if as_json:
        put_json(
            [
                {"place": place, "object": each.path, "attribute": each.attribute, "text": each.text}
                for place, each in zip(places, findings, strict=True)
            ]
        )
    for place, each in zip(places, findings, strict=True):
        if not as_json:
            attribute = f" {each.attribute}" if each.attribute else ""
            show(f"[bold]{escaped(place)}[/]: [red]{escaped(each.path)}[/]{escaped(attribute)}: {escaped(each.text)}")
    if findings:
        note(f"{counted(len(findings), 'problem')} in {file}", style="red")
        raise typer.Exit(FAILED)
    note(f"{file}: {counted(len(records), 'object')}, nothing is wrong", style="green")


def _place(finding: Finding, file: Path, lines: list[str]) -> str:
    """Return file and line: of the attribute, if it is written there, otherwise of the object."""
    match = _PLACE.match(finding.source)
    if match is None or match["file"] != file.name:
        return finding.source or str(file)
    first = int(match["line"])
    name = finding.attribute.partition(".")[0]
    begins = re.compile(rf"^\s*\"?{re.escape(name)}\"?\s*[=.]") if name else None
    for number, line in enumerate(lines[first:], first + 1):
        # At the next table header the object ends: an attribute of the same name below it belongs to another object.
        if begins is None or _HEADER.match(line):
            break
        if begins.match(line):
            return f"{file}:{number}"
    return f"{file}:{first}"
