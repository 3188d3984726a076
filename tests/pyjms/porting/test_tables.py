"""Each line of the tables of Java's library is translated, and what comes of it runs: no program that is all translated raises `NotPorted`."""

from __future__ import annotations

import ast
import logging
import random
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyjms.porting import java
from pyjms.porting.program import port
from pyjms.porting.types import LIBRARY_TYPES, LibraryType, Member
from pyjms.types import Byte, Char, Float, Long, Short
from tests.pyjms.porting.running import imported
from tests.tidy.source import ROOT

NOT_RUN = {
    ("java.lang.System", "exit"),
    ("java.lang.Runtime", "exit"),
    ("java.lang.Runtime", "addShutdownHook"),
    ("java.lang.System", "arraycopy"),
    ("java.lang.Enum", "compareTo"),
    ("java.util.Objects", "requireNonNull"),
}
"""What ends the process, or asks for objects that belong together: translated, but not run."""
WAITING = {"wait", "take", "await", "acquire", "join", "schedule", "scheduleAtFixedRate", "scheduleWithFixedDelay"}
MADE = [each for each in LIBRARY_TYPES.values() if not each.name.startswith(("javax.", "pyjms."))]


def declared(kind: str, type_parameters: tuple[str, ...] = ()) -> str:
    """Return a type of the tables as a program declares it: with String for each type that it leaves open."""
    kind = kind.removesuffix("...")
    kind = {"text": "String", "any": "String"}.get(kind, kind)
    for parameter in type_parameters:
        kind = re.sub(rf"(?<![\w$.]){parameter}(?!\w)", "String", kind) if parameter else kind
    return re.sub(r"\$\w+", "String", kind)


def program_for(kind: LibraryType, member: Member) -> str:
    """Return a method with one call of a member."""
    parameters = [each for each in kind.parameters if each]
    own = kind.name + (f"<{', '.join(['String'] * len(parameters))}>" if parameters else "")
    names = [f"a{place}" for place in range(len(member.params or ()))]
    listed = [
        f"{declared(each, tuple(parameters))} {name}" for each, name in zip(member.params or (), names, strict=True)
    ]
    passed = ", ".join(names)
    if member.name == "new":
        call = f"new {own}({passed})"
    elif member.params is None:
        call = f"{kind.name}.{member.name}"
    elif member.is_static:
        call = f"{kind.name}.{member.name}({passed})"
    else:
        listed.insert(0, f"{own} it")
        call = f"it.{member.name}({passed})"
    result = member.returns in {"void", ""} and member.name != "new"
    body = f"{call}; return null;" if result else f"return {call};"
    return f"static Object run({', '.join(listed)}) throws Exception {{ {body} }}"


PACKAGES = (
    "java.io java.math java.nio.charset java.nio.file java.text java.util java.util.concurrent java.util.concurrent.atomic "
    "java.util.concurrent.locks java.util.function java.util.regex java.util.stream javax.transaction.xa javax.naming"
)
IMPORTS = "".join(f"import {each}.*;\n" for each in PACKAGES.split())
HEIGHT = IMPORTS.count("\n") + 2
MEMBERS = [(kind, member) for kind in MADE for member in kind.members]


def samples(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return what makes an object of each type that a parameter may have."""
    text = folder / "sample.txt"
    text.write_text("12 ab\nline\n", encoding="utf-8")
    path = str(text)
    return {
        "boolean": lambda: True,
        "char": lambda: "7",
        "byte": lambda: 1,
        "short": lambda: 1,
        "int": lambda: 1,
        "long": lambda: 1,
        "float": lambda: 1.5,
        "double": lambda: 1.5,
        "String": lambda: "12",
        "Object": lambda: "12",
        "CharSequence": lambda: "12",
        "Serializable": lambda: "12",
        "Comparable": lambda: "12",
        "Integer": lambda: 1,
        "Long": lambda: Long(1),
        "Short": lambda: Short(1),
        "Byte": lambda: Byte(1),
        "Number": lambda: 1,
        "Double": lambda: 1.5,
        "Float": lambda: Float(1.5),
        "Character": lambda: Char("x"),
        "Boolean": lambda: True,
        "Class": lambda: java.Class("java.lang.String"),
        "Locale": lambda: None,
        "Charset": lambda: "UTF-8",
        "StringBuilder": lambda: java.StringBuilder("abc"),
        "StringBuffer": lambda: java.StringBuilder("abc"),
        "InputStream": lambda: java.InputStream.of(b"one\ntwo\n"),
        "OutputStream": java.ByteArrayOutputStream,
        "ByteArrayOutputStream": java.ByteArrayOutputStream,
        "Reader": lambda: java.InputStream.of(b"one\ntwo\n").reader(),
        "InputStreamReader": lambda: java.InputStream.of(b"one\ntwo\n").reader(),
        "FileReader": lambda: java.InputStream.of(b"one\ntwo\n").reader(),
        "StringReader": lambda: java.InputStream.of(b"one\ntwo\n").reader(),
        "BufferedReader": lambda: java.InputStream.of(b"one\ntwo\n").reader(),
        "FileWriter": java.StringWriter,
        "OutputStreamWriter": java.StringWriter,
        "Writer": java.StringWriter,
        "BufferedWriter": java.StringWriter,
        "StringWriter": java.StringWriter,
        "PrintWriter": lambda: java.PrintWriter(java.StringWriter()),
        "File": lambda: java.File(path),
        "Path": lambda: java.File(path),
        "UUID": lambda: "e" * 8,
        "Random": lambda: random.Random(1),
        "ThreadLocalRandom": lambda: random.Random(1),
        "Scanner": lambda: java.Scanner("1 2\nthree"),
        "StringTokenizer": lambda: java.enumeration(["a", "b"]),
        "Runnable": lambda: lambda: None,
        "Callable": lambda: lambda: "12",
        "Thread": java.Thread,
        "TimeUnit": lambda: 0.001,
        "CountDownLatch": lambda: java.CountDownLatch(0),
        "Semaphore": lambda: java.Semaphore(5),
        "AtomicInteger": java.AtomicNumber,
        "AtomicLong": lambda: java.AtomicNumber(0, 64),
        "AtomicBoolean": java.AtomicBoolean,
        "AtomicReference": lambda: java.AtomicReference("12"),
        "Future": done_future,
        "CompletableFuture": done_future,
        "ScheduledFuture": done_future,
        "Executor": lambda: java.ExecutorService(1),
        "ExecutorService": lambda: java.ExecutorService(1),
        "ScheduledExecutorService": lambda: java.ExecutorService(1),
        "Lock": held_lock,
        "ReentrantLock": held_lock,
        "Condition": lambda: held_lock().newCondition(),
        "ThreadLocal": java.ThreadLocal,
        "Timer": java.Timer,
        "TimerTask": lambda: lambda: None,
        "Runtime": lambda: None,
        "Throwable": lambda: java.Exception("x"),
        "Enum": lambda: Sample.ONE,
        **samples_of_collections(),
    }


def samples_of_collections() -> dict[str, Callable[[], Any]]:
    """Return the same for dates, big numbers, collections and functions."""
    return {
        "Date": lambda: java.Date(0),
        "DateFormat": lambda: java.SimpleDateFormat("12"),
        "SimpleDateFormat": lambda: java.SimpleDateFormat("12"),
        "BigInteger": lambda: java.BigInteger(3),
        "BigDecimal": lambda: java.BigDecimal("1.0"),
        "RoundingMode": lambda: "HALF_UP",
        "Pattern": lambda: java.Pattern("(?<n12>1)2"),
        "Matcher": found_matcher,
        "Iterator": lambda: moved(java.Iterator(["a", "b"])),
        "ListIterator": lambda: java.Iterator(["a"]),
        "Iterable": lambda: ["12"],
        "Collection": lambda: ["12"],
        "Enumeration": lambda: java.enumeration(["12"]),
        "List": lambda: ["12", "x"],
        "Entry": lambda: ("12", "x"),
        "Optional": lambda: java.Optional("12"),
        "Stream": lambda: java.Stream(["12", "x"]),
        "IntStream": lambda: java.Stream([1, 2]),
        "LongStream": lambda: java.Stream([1, 2]),
        "DoubleStream": lambda: java.Stream([1.0, 2.0]),
        "Collector": lambda: list,
        "Function": lambda: lambda each: each,
        "UnaryOperator": lambda: lambda each: each,
        "IntUnaryOperator": lambda: lambda each: each,
        "BiFunction": lambda: lambda one, other: other,
        "BinaryOperator": lambda: lambda one, other: one,
        "IntBinaryOperator": lambda: lambda one, other: one,
        "Supplier": lambda: lambda: java.Exception("x"),
        "BooleanSupplier": lambda: lambda: True,
        "IntSupplier": lambda: lambda: 1,
        "LongSupplier": lambda: lambda: 1,
        "Consumer": lambda: lambda each: None,
        "IntConsumer": lambda: lambda each: None,
        "BiConsumer": lambda: lambda one, other: None,
        "Predicate": lambda: lambda each: True,
        "IntPredicate": lambda: lambda each: True,
        "BiPredicate": lambda: lambda one, other: True,
        "IntFunction": lambda: lambda each: "12",
        "ToIntFunction": lambda: lambda each: 1,
        "ToLongFunction": lambda: lambda each: 1,
        "ToDoubleFunction": lambda: lambda each: 1.0,
        "Comparator": lambda: lambda one, other: 0,
        "Closeable": java.StringWriter,
        "AutoCloseable": java.StringWriter,
        "Logger": lambda: logging.getLogger("sample"),
        "Log": lambda: logging.getLogger("sample"),
        "Level": lambda: logging.INFO,
        "Properties": lambda: {"12": "x"},
    }


class Sample(java.Enum):
    ONE: Sample


Sample.ONE = Sample("ONE")


def done_future() -> Any:
    made: java.Future[str] = java.Future()
    made.complete("12")
    return made


def held_lock() -> java.Lock:
    made = java.Lock()
    made.lock()
    return made


def found_matcher() -> Any:
    made = java.Pattern("(?<n12>1)2").matcher("12")
    made.find()
    return made


def moved(iterator: Any) -> Any:
    iterator.next()
    return iterator


def made_for(kind: str, known: dict[str, Callable[[], Any]]) -> Any:
    """Return an object of a type as the tables write it."""
    plain = declared(kind)
    if plain.endswith("[]"):
        element = plain[:-2]
        return bytearray(b"12") if element == "byte" else [made_for(element, known) for _ in range(3)]
    simple = plain.partition("<")[0].rpartition(".")[2]
    if simple in known:
        return known[simple]()
    full = next(
        (each for each in LIBRARY_TYPES if each.rpartition(".")[2] == simple and each.startswith("java")), simple
    )
    if "Map" in simple or simple in {"Hashtable", "Dictionary", "Properties"}:
        return (
            java.TreeMap({"12": "x"})
            if simple in {"SortedMap", "NavigableMap", "TreeMap", "ConcurrentSkipListMap"}
            else {"12": "x"}
        )
    if "Set" in simple:
        return java.TreeSet({"12"}) if simple in {"SortedSet", "TreeSet"} else java.LinkedSet(["12"])
    if simple == "PriorityQueue":
        queue: java.PriorityQueue[str] = java.PriorityQueue()
        queue.add("12")
        return queue
    if "concurrent" in full and ("Queue" in simple or "BlockingDeque" in simple or "LinkedDeque" in simple):
        return filled_queue()
    if simple.endswith(("List", "Queue", "Deque", "Vector", "Stack")):
        return ["12", "x"]
    if simple.endswith(("Exception", "Error")):
        return java.Exception("x")
    if simple.endswith("Stream"):
        return java.InputStream.of(b"one") if "Input" in simple else java.ByteArrayOutputStream()
    raise AssertionError(f"no sample of {kind}")


def filled_queue() -> Any:
    queue: java.BlockingQueue[str] = java.BlockingQueue()
    queue.add("12")
    return queue


def chunks() -> Iterator[list[tuple[LibraryType, Member]]]:
    for start in range(0, len(MEMBERS), 100):
        yield MEMBERS[start : start + 100]


@pytest.mark.parametrize("part", list(chunks()), ids=lambda part: f"{part[0][0].name}.{part[0][1].name}")
def test_each_line_of_the_tables_is_translated_and_runs(
    part: list[tuple[LibraryType, Member]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("12", "true")
    monkeypatch.chdir(tmp_path)
    known = samples(tmp_path)
    methods = [
        program_for(kind, member).replace(" run(", f" run{place}(", 1) for place, (kind, member) in enumerate(part)
    ]
    (made,) = port({"Case.java": f"{IMPORTS}class Case {{\n{chr(10).join(methods)}\n}}\n"})
    assert [(each.what, methods[each.line - HEIGHT]) for each in made.findings if each.kind != "check"] == []
    assert made.translated == made.statements
    assert "NotPorted" not in made.python
    case = imported(tmp_path, "Case", made.python).Case
    for place, (kind, member) in enumerate(part):
        if (kind.name, member.name) in NOT_RUN or member.name in WAITING:
            continue
        arguments = [made_for(each, known) for each in bound(kind, member)]
        if member.params is not None and not member.is_static and member.name != "new":
            arguments.insert(0, made_for(kind.name, known))
        result = None
        with suppress(OSError, LookupError, ValueError, ArithmeticError, RuntimeError, java.Exception, java.Error):
            result = getattr(case, f"run{place}")(*arguments)
        for each in (*arguments, result):
            if isinstance(each, (java.Reader, java.InputStream, java.OutputStream, java.Writer, java.Scanner)):
                each.close()


def bound(kind: LibraryType, member: Member) -> list[str]:
    return [declared(each, kind.parameters) for each in member.params or ()]


def test_only_what_was_left_out_raises_not_ported() -> None:
    """`NotPorted` is raised by what the translator writes in the place of a part that it has told of, and by nothing else."""
    library = sorted((ROOT / "pyjms/porting/java").glob("*.py"))
    raising = {
        f"{path.name}:{function.name}"
        for path in library
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for each in ast.walk(function)
        if isinstance(each, ast.Raise) and "NotPorted" in ast.unparse(each)
    }
    assert raising == {"errors.py:not_ported", "errors.py:__get__"}
    templates = [member.template or "" for kind in LIBRARY_TYPES.values() for member in kind.members]
    assert [each for each in templates if "not_ported" in each] == []
    assert sys.modules["pyjms.porting.java"] is java
