"""``pyjms port``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pyjms.commands.connecting import AsJson, CommandError, errors_told, tables
from pyjms.spi.terminal import escaped, listing, put_json

if TYPE_CHECKING:
    from pyjms.porting.model import PortedFile

EXAMPLES: Final = (
    "pyjms port src/main/java --output ported",
    "pyjms port Producer.java Consumer.java --check",
)
_NEEDS_A_HUMAN: Final = 1


def port(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Java files of one program, or folders with such.", metavar="FILE", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder that the Python files go to.", metavar="FOLDER")
    ] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; tell what a human would have to do.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Translate Java that uses JMS into Python that uses pyjms, and list what needs a human.

    What is not translated stands in the Python as a comment, and raises when it is reached.

    Exit code: 0 nothing needs a human, 1 something does, 2 it cannot be done as asked.
    """
    with errors_told("port"):
        made = _ported(_files(sources))
        if not check:
            _write(made, output, force=force)
    if as_json:
        put_json(_as_data(made))
    else:
        _show(made)
    if any(each.findings for each in made):
        raise typer.Exit(_NEEDS_A_HUMAN)


def _files(sources: Sequence[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for source in sources:
        files = sorted(source.rglob("*.java")) if source.is_dir() else [source]
        # A dictionary keeps the order and each file once, also if a folder and a file in it are named. Files with these
        # two stems hold no classes.
        found.update(dict.fromkeys(each for each in files if each.stem not in {"package-info", "module-info"}))
    if not found:
        raise CommandError("there are no .java files")
    return list(found)


def _ported(files: Sequence[Path]) -> list[PortedFile]:
    try:
        from pyjms.porting.program import port as translate
    except ModuleNotFoundError as error:
        raise CommandError(
            f"it needs the package {error.name}; install it with: pip install 'pyjms-messaging[port]'"
        ) from error
    texts = {}
    for file in files:
        try:
            # Editors on Windows write a byte order mark, which is no Java.
            texts[file.as_posix()] = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise CommandError(f"{file} is no UTF-8; convert it first") from error
    made = translate(texts)
    places: dict[tuple[str, ...], str] = {}
    for each in made:
        # Two classes with the same package and name would overwrite each other.
        other = places.setdefault(each.module, each.name)
        if other != each.name:
            raise CommandError(
                f"{other} and {each.name} are both {'.'.join(each.module)}: port the programs one by one"
            )
    return made


def _place(module: tuple[str, ...]) -> Path:
    return Path(*module).with_suffix(".py")


def _write(made: Sequence[PortedFile], output: Path, *, force: bool) -> None:
    # All are checked before the first is written, so that a refusal leaves nothing half done.
    there = [output / _place(each.module) for each in made if (output / _place(each.module)).exists()]
    if there and not force:
        raise CommandError(f"{there[0]} is there already; --force writes over it, --output takes another folder")
    for each in made:
        place = output / _place(each.module)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(each.python, encoding="utf-8")


def _as_data(made: Sequence[PortedFile]) -> dict[str, Any]:
    return {
        "statements": sum(each.statements for each in made),
        "translated": sum(each.translated for each in made),
        "files": [
            {
                "java": each.name,
                "python": _place(each.module).as_posix(),
                "statements": each.statements,
                "translated": each.translated,
                "findings": [
                    {
                        "line": found.line,
                        "column": found.column,
                        "kind": found.kind,
                        "what": found.what,
                        "advice": found.advice,
                    }
                    for found in each.findings
                ],
            }
            for each in made
        ],
    }


def _show(made: Sequence[PortedFile]) -> None:
    files = listing("file", "statements", "translated", "to look at")
    for each in made:
        files.add_row(escaped(each.name), f"{each.statements:,}", f"{each.translated:,}", f"{len(each.findings):,}")
    tables().print(files)
    for each in made:
        if each.findings:
            tables().print()
            tables().print(escaped(each.name), soft_wrap=True)
            found = listing("line", "kind", "what", "what to do", whole=("line", "kind"))
            for finding in each.findings:
                found.add_row(str(finding.line), finding.kind, escaped(finding.what), escaped(finding.advice))
            tables().print(found)
