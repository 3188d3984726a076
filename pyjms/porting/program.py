"""Translates programs: Java files in, Python files and findings out."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from tree_sitter import Node

# Each of these fills the tables of `pyjms.porting.table`.
from pyjms.porting import calls, creation, expressions, statements
from pyjms.porting.codes import MODULES, PYJMS_NAMES, TYPED_VALUES, is_taken, module_path
from pyjms.porting.constants import LITERALS
from pyjms.porting.members import class_lines, resolve_supers, separate
from pyjms.porting.model import (
    COMMENTS,
    PortedFile,
    Unportable,
    child,
    children,
    parse,
    statements_in,
    syntax_errors,
    text_of,
    walk,
)
from pyjms.porting.table import EXPRESSIONS, comment_lines, indented
from pyjms.porting.types import find_members, type_named
from pyjms.porting.unit import ClassInfo, MethodInfo, Program, SourceFile, Unit, classes_of

_TRANSLATORS: Final = (calls, creation, expressions, statements)
EXPRESSIONS.update(LITERALS)
_CONCURRENT: Final = frozenset(
    {
        "Thread",
        "Runnable",
        "MessageListener",
        "ExceptionListener",
        "ExecutorService",
        "setMessageListener",
        "setExceptionListener",
    }
)


_INTERRUPTING: Final = frozenset({"interrupt", "shutdownNow"})


def port(sources: Mapping[str, str]) -> list[PortedFile]:
    """Return a program in Python; `sources` has the text of each file by its name."""
    program = Program()
    made: list[PortedFile] = []
    waiting = []
    for name, source in sources.items():
        tree = parse(source)
        file = _file(name, tree.root_node)
        result = PortedFile(name, file.module, statements=statements_in(tree.root_node))
        result.findings = syntax_errors(tree)
        made.append(result)
        # A file with syntax errors is left out: its classes would be incomplete, and calls of them wrongly translated.
        if not result.findings:
            program.files.append(file)
            for info in file.classes:
                program.add(info)
            waiting.append((file, result))
        else:
            first = result.findings[0]
            # The module still exists and says why, since other files may import from it.
            result.python = f"raise SyntaxError({f'{name}:{first.line}: {first.what}'!r})\n"
    # Determined for the whole program: a thread in one file may print by a method of another.
    concurrent = any(
        any(each.type in {"identifier", "type_identifier"} and text_of(each) in _CONCURRENT for each in walk(file.root))
        for file, _ in waiting
    )
    interrupts = any(text_of(each) in _INTERRUPTING for file, _ in waiting for each in walk(file.root))
    for file, _ in waiting:
        unit = Unit(program, file)
        for info in file.classes:
            try:
                resolve_supers(unit, info)
            except Unportable:
                # The class itself reports the unknown type when it is written; here it would be reported twice.
                info.superclass, info.interfaces = None, []
    for file, _ in waiting:
        for info in file.classes:
            # After all supertypes are known, and before any code: names in Python depend on the superclasses.
            separate(Unit(program, file), info)
    # For all files before the first is written: a call in one file must know a method's name in another.
    _name_overloads(program, [(Unit(program, file), info) for file, _ in waiting for info in file.classes])
    for file, result in waiting:
        _port_file(Unit(program, file, concurrent=concurrent, interrupts=interrupts), result)
    return made


def _name_overloads(program: Program, tops: list[tuple[Unit, ClassInfo]]) -> None:
    """Rename methods that differ only in their parameter types; the names contain these types."""
    pairs: list[tuple[Unit, ClassInfo]] = []
    while tops:
        unit, info = tops.pop()
        pairs.append((unit, info))
        tops.extend((unit, inner) for inner in info.nested.values())
    ambiguous: set[tuple[str, int]] = set()
    for unit, info in pairs:
        known: dict[tuple[str, int], set[tuple[str, ...]]] = {}
        for above in unit.lineage(info):
            for method in above.methods if above is info or info.kind != "enum" else ():
                # Constructors are not inherited (JLS §8.8), so those of superclasses are no overloads.
                if not method.name and above is not info:
                    continue
                try:
                    unit.fill_signature(method)
                except Unportable:
                    continue
                if not method.variadic:
                    key = (method.name or f"new {info.full_name}", len(method.params))
                    known.setdefault(key, set()).add(tuple(map(str, method.params)))
        ambiguous |= {
            key
            for key, types in known.items()
            if len(types) > 1
            # Python and the library call these by their names, and type parameters are Object here: types would
            # distinguish nothing.
            and not (key[0] in {"equals", "compareTo", "compare"} or child(info.node, "type_parameters") is not None)
        }
    for unit, info in pairs:
        for method in info.methods:
            key = (method.name or f"new {info.full_name}", len(method.params))
            # A method that implements one of the library must keep its name, as the library's code calls it.
            if key not in ambiguous or method.variadic or _is_from_library(unit, info, method):
                continue
            types = "_".join(str(each).rpartition(".")[2].replace("[]", "s") for each in method.params)
            method.by_types = True
            method.python = f"{method.python if method.name else '_init'}_{types}"


def _is_from_library(unit: Unit, info: ClassInfo, method: MethodInfo) -> bool:
    """Whether JMS, or Java's library, calls a method by its name."""
    return any(
        each.params is not None
        and [str(type_named(one, {})) for one in each.params] == [str(kind) for kind in method.params]
        for above in unit.library_supers(info)
        for each in find_members(above.name, method.name)
    )


def _file(name: str, root: Node) -> SourceFile:
    package = next((text_of(children(each)[-1]) for each in children(root) if each.type == "package_declaration"), "")
    stem = name.replace("\\", "/").rpartition("/")[2].removesuffix(".java")
    file = SourceFile(name, root, package, (*module_path(package), stem))
    for node in children(root):
        if node.type != "import_declaration":
            continue
        parts = children(node)
        # Jakarta Messaging has the same classes in another package; the tables have one of them.
        full = text_of(parts[0]).replace("jakarta.jms", "javax.jms")
        if any(each.type == "static" for each in node.children):
            star = any(each.type == "asterisk" for each in parts)
            file.statics.append(f"{full}.*" if star else full)
        elif any(each.type == "asterisk" for each in parts):
            file.on_demand.append(full)
        else:
            file.single[full.rpartition(".")[2]] = full
    file.classes = list(classes_of(file))
    return file


def _port_file(unit: Unit, result: PortedFile) -> None:
    body: list[str] = []
    for info in _in_order(unit, unit.file.classes):
        body += ["", "", *_comments_before(info), *class_lines(unit, info)]
        while not body[-1]:
            body.pop()
    # Other static fields may use constants of enums, and rarely the other way round.
    unit.static_lines = [*unit.enum_lines, *unit.static_lines]
    if unit.static_lines:
        body += ["", "", *unit.static_lines]
    # After the classes were written, which shows whether there is a `main`.
    _tell_of_program(unit)
    ending = _main_lines(unit)
    code = "\n".join([*body, *ending])
    own = {info.name for info in unit.file.classes}
    imports = _imports(code, own)
    result.python = "\n".join(
        [
            f'"""{unit.file.name.rpartition("/")[2]}, ported from Java by pyjms port."""',
            *_heading(unit),
            "",
            *imports,
            *_own_imports(unit, early=True),
            code.rstrip(),
            "",
        ]
    )
    if not imports:
        result.python = result.python.replace("\n\n\n\n", "\n\n\n")
    late = _own_imports(unit, early=False)
    if late:
        result.python = _with_late_imports(result.python, late, unit)
    result.findings = sorted(set(unit.findings))
    lost = [statements_in(each) for each in _outermost(unit.untranslated)]
    # A declaration without statements, such as a record, counts as one.
    result.statements += lost.count(0)  # a declaration without statements, such as a record, counts as one
    result.translated = result.statements - sum(max(1, each) for each in lost)


def _heading(unit: Unit) -> list[str]:
    """Return the comments at the top of a file, such as its licence."""
    lines: list[str] = []
    for node in unit.file.root.named_children:
        if node.type not in COMMENTS:
            break
        lines.extend(["", *comment_lines(node)])
    return lines


def _comments_before(info: ClassInfo) -> list[str]:
    node, lines = info.node.prev_named_sibling, list[str]()
    while node is not None and node.type in COMMENTS and node.prev_named_sibling is not None:
        lines = [*comment_lines(node), *lines]
        node = node.prev_named_sibling
    return lines


def _in_order(unit: Unit, classes: list[ClassInfo]) -> list[ClassInfo]:
    """Return classes so that each comes after the base classes of it and of its nested classes."""
    done: list[ClassInfo] = []

    def add(info: ClassInfo) -> None:
        if info in done or info.file is not unit.file:
            return
        for name in _above(info):
            top = unit.program.classes.get(name)
            while top is not None and top.outer is not None:
                top = top.outer
            # A Python class must exist before its subclasses; nested classes come with their enclosing class.
            if top is not None and top is not info:
                add(top)
        if info not in done:
            done.append(info)

    for each in classes:
        add(each)
    return done


def _above(info: ClassInfo) -> list[str]:
    found = [each.name for each in (info.superclass, *info.interfaces) if each is not None]
    return [*found, *(name for each in info.nested.values() for name in _above(each))]


def _tell_of_program(unit: Unit) -> None:
    calls_made = {
        text_of(name): node
        for node in walk(unit.file.root)
        if node.type == "method_invocation" and (name := node.child_by_field_name("name")) is not None
    }
    listens = calls_made.get("setMessageListener")
    if listens is not None and unit.main_classes and "close" not in calls_made and not _is_in_resources(listens):
        unit.check(
            listens,
            "main returns while the program listens",
            "in Java the program goes on; here let main wait: docs/how-to/porting.md, A program that only listens",
        )
    for info in unit.file.classes:
        if is_taken(info.name):
            unit.check(
                info.node, f"the name of the class {info.name}", "Python, or pyjms, has another of that name: rename it"
            )
        other = unit.program.classes[info.full_name]
        if other.file is not unit.file:
            unit.check(info.node, f"{info.full_name} is in {other.file.name}, too", "port the programs one by one")


def _is_in_resources(node: Node) -> bool:
    """Whether a call is in a try with resources, which closes what listens: the program waits within it."""
    current: Node | None = node
    while current is not None:
        if current.type == "try_with_resources_statement":
            return True
        current = current.parent
    return False


def _main_lines(unit: Unit) -> list[str]:
    if not unit.main_classes:
        return []
    info = unit.main_classes[0]
    start = f"{info.name}.main(sys.argv[1:])"
    return ["", "", 'if __name__ == "__main__":', *indented([start])]


def _imports(code: str, own: set[str]) -> list[str]:
    """Return the imports of what the code uses."""
    # Found in the finished code and not noted on the way: left-out parts need no imports.
    names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)} - own
    lines = [f"import {name}" for name in MODULES if name in names]
    theirs = []
    if used := sorted(names & PYJMS_NAMES):
        theirs.append(f"from pyjms import {', '.join(used)}")
    if "java" in names:
        theirs.append("from pyjms.porting import java")
    if typed := sorted(names & TYPED_VALUES - PYJMS_NAMES):
        theirs.append(f"from pyjms.types import {', '.join(typed)}")
    return [*lines, *([""] if lines and theirs else []), *theirs]


def _own_imports(unit: Unit, *, early: bool) -> list[str]:
    """Return the imports of classes of other files: of base classes, or of the rest."""
    extended = set()
    for info in unit.file.classes:
        for name in _above(info):
            above = unit.program.classes.get(name)
            while above is not None and above.outer is not None:
                above = above.outer
            if above is not None:
                extended.add(above.full_name)
    return [
        f"from {'.'.join(info.file.module)} import {info.name}"
        for full, info in sorted(unit.classes_used.items())
        # A base class is needed when the class statement runs; others only when methods run, which allows cycles.
        if (full in extended) == early
    ]


def _with_late_imports(python: str, late: list[str], unit: Unit) -> str:
    """Move imports between classes to the end of the modules, since they may be cyclic."""
    lines = ["", "", *[f"{line}  # noqa: E402" for line in late]]
    start = "\n\n\n" + (unit.static_lines[0] if unit.static_lines else 'if __name__ == "__main__":')
    # The last place: the line may also occur in a class, and these imports come after all classes.
    place = python.rfind(start)
    text = "\n".join(lines)
    return python[:place] + text + python[place:] if place >= 0 else python.rstrip() + text + "\n"


def _outermost(nodes: list[Node]) -> list[Node]:
    """Return the nodes that are not nested in others of them."""
    found: list[Node] = []
    # At the same start the longer node comes first, so that the nested one is recognised.
    for node in sorted(nodes, key=lambda each: (each.start_byte, -each.end_byte)):
        if not found or node.start_byte >= found[-1].end_byte:
            found.append(node)
    return found
