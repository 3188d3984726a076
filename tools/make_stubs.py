"""Write the ``.pyi`` files that show both names of each member of the API to type checkers and editors.

`pyjms.api.names` gives a class its Java names when Python runs; type checkers read source. So, for each module of
`SOURCES`, this script writes a stub beside it in which each class that says ``declares=True`` has both names written
out. Nothing in a stub is abstract: who implements an interface may write either name, and Python itself refuses to make
an object of a class that lacks both.

``make_stubs.py`` writes; ``make_stubs.py --check`` only compares, and fails when a stub is not up to date.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pyjms.api.names import java_name  # noqa: E402 - the path comes first

SOURCES = (
    "pyjms/api/base.py",
    "pyjms/api/connection.py",
    "pyjms/api/consumer.py",
    "pyjms/api/context.py",
    "pyjms/api/destination.py",
    "pyjms/api/factory.py",
    "pyjms/api/message.py",
    "pyjms/api/producer.py",
    "pyjms/api/session.py",
    "pyjms/api/xa.py",
    "pyjms/errors.py",
)
"""The modules that declare members. A class elsewhere that only implements them needs no stub of its own.

mypy reads the stub in place of its module; `tests/pyjms/api/test_stubs.py` has it read the modules, too.
"""

HEADER = """\
# Written by tools/make_stubs.py from {source}: change that file, then run the script.
# ruff: noqa: I001, Q000, RUF100
# fmt: off
"""


def stub(source: str, text: str) -> str:
    """Return the stub of module `source`, whose content is `text`."""
    body: list[str] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    for statement in ast.parse(text).body:
        imports.extend(_imports(statement))
        body.extend(_statement(statement))
    shown = "\n".join(body)
    used = {node.id for node in ast.walk(ast.parse(shown)) if isinstance(node, ast.Name)}
    kept = [line for statement in imports if (line := _import(statement, used))]
    return HEADER.format(source=source) + "\n".join([*kept, shown]) + "\n"


def _imports(statement: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield statement
    elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
        for inner in statement.body:
            yield from _imports(inner)


def _import(statement: ast.Import | ast.ImportFrom, used: set[str]) -> str:
    """Return the import with only the names that the stub uses, or nothing."""
    names = [alias for alias in statement.names if (alias.asname or alias.name).split(".")[0] in used]
    if not names:
        return ""
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names))
    return ast.unparse(ast.ImportFrom(statement.module, names, statement.level))


def _statement(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.ClassDef):
        yield "\n".join(["", *_class(statement)])
    elif isinstance(statement, ast.FunctionDef) and not statement.name.startswith("_"):
        yield _function(statement, statement.name)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and not _is_private(statement):
        yield "\n" + ast.unparse(statement)


def _class(definition: ast.ClassDef) -> Iterator[str]:
    declares = any(keyword.arg == "declares" for keyword in definition.keywords)
    arguments = [ast.unparse(base) for base in definition.bases]
    arguments += [ast.unparse(keyword) for keyword in definition.keywords if keyword.arg != "declares"]
    yield f"class {definition.name}({', '.join(arguments)}):" if arguments else f"class {definition.name}:"
    members = _with_setters(definition.body)
    lines = [line for statement in members for line in _python_member(statement)]
    if declares:  # after the Python names, since a property or a group of overloads must not be interrupted
        lines += [line for statement in definition.body for line in _java_member(statement)]
    yield from (f"    {line}" for line in lines or ["..."])


def _with_setters(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the members of a class, with the setter of each property that is written by a method ``set_…`` of its name."""
    setters = {item.name: item for item in body if isinstance(item, ast.FunctionDef) and item.name.startswith("set_")}
    members: list[ast.stmt] = []
    for item in body:
        members.append(item)
        if isinstance(item, ast.FunctionDef) and "property" in _decorators(item):
            method = setters.get(f"set_{item.name.rstrip('_')}")
            if method is not None:
                decorator = ast.Attribute(ast.Name(item.name, ast.Load()), "setter", ast.Load())
                members.append(
                    ast.FunctionDef(
                        item.name, method.args, method.body, [decorator], ast.Constant(None), lineno=item.lineno
                    )
                )
    return members


def _python_member(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and not _is_private(statement):
        yield ast.unparse(statement)
    elif isinstance(statement, ast.FunctionDef) and not _is_hidden(statement):
        yield from (f"@{decorator}" for decorator in _decorators(statement))
        yield _function(statement, statement.name)


def _java_member(statement: ast.stmt) -> Iterator[str]:
    if not isinstance(statement, ast.FunctionDef) or statement.name.startswith("_") or _is_hidden(statement):
        return
    decorators = _decorators(statement)
    if "property" in decorators:
        yield _function(statement, java_name(statement.name, "get"))
    elif f"{statement.name}.setter" in decorators:
        yield _function(statement, java_name(statement.name, "set"))
    elif (java := java_name(statement.name)) != statement.name:
        yield from (f"@{decorator}" for decorator in decorators)
        yield _function(statement, java)


def _decorators(definition: ast.FunctionDef) -> list[str]:
    return [text for item in definition.decorator_list if (text := ast.unparse(item)) != "abstractmethod"]


def _is_hidden(definition: ast.FunctionDef) -> bool:
    """Tell what callers do not see: private functions, and the body behind a group of overloads."""
    private = definition.name.startswith("_") and not definition.name.endswith("__")
    return private or (definition.args.vararg is not None and definition.args.kwarg is not None)


def _function(definition: ast.FunctionDef, name: str) -> str:
    returns = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    return f"def {name}({ast.unparse(definition.args)}){returns}: ..."


def _is_private(statement: ast.Assign | ast.AnnAssign) -> bool:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    return isinstance(target, ast.Name) and target.id.startswith("_") and target.id != "__all__"


def main() -> int:
    """Write the stubs, or check them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a stub is not up to date")
    check = parser.parse_args().check
    stale = 0
    for source in SOURCES:
        path = (ROOT / source).with_suffix(".pyi")
        wanted = stub(source, (ROOT / source).read_text(encoding="utf-8"))
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        stale += 1
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date with {source}: run python tools/make_stubs.py")
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
