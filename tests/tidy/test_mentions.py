"""What pages, docstrings and comments mention in backticks is there: a file, a member of a class, or a name in some source.

A page outlives what it names: nothing fails when a class gets another name. Decisions that another one has replaced tell of their
own time, and so are left alone.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.tidy.source import EVERYTHING, LIBRARY, ROOT, is_stub_of_a_body, name_of, parse, python_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PAGES = ("docs/design", "docs/how-to", "docs/decisions")
REPLACED = "has taken its place"
_MENTION = re.compile(r"`+([^`]+)`+")
# Files of other kinds are mostly a reader's own.
_FILE = re.compile(r"[\w./-]+\.(?:py|md|lark|txt)|\w+(?:/\w+)+/")
_MEMBER = re.compile(r"(?:\w+\.)*(?P<owner>_?[A-Z]\w*[a-z]\w*)\.(?P<member>[a-z_]\w*)(\(.*\))?")
_WORD = re.compile(r"(?<![\w$])[A-Za-z_]\w{2,}")
_FENCE = re.compile(r" *```")
# COMMAND, NAME: a frame's command, or what stands for a value; pyjms_…: a metric, put together from what the model declares.
_NO_NAME = re.compile(r"[A-Z0-9]+|pyjms_\w+")
_OTHER_SOURCES = {".toml", ".lark", ".txt", ".js", ".html", ".cfg"}
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Names of others, which no source of ours has.
FOREIGN = {
    *("chrt", "copytruncate", "fdatasync", "heapq", "logic", "sched_setaffinity", "strace", "taskset", "umask"),
    *("appendfsync", "excl", "locking_mode", "pg_dump", "pg_xact_status", "unix"),
    *("AnyIO", "InheritableThread", "auto_content_length", "http_host", "mapInArrow", "proxy_set_header"),
    *("AbstractConfiguredObject", "VirtualHostNode", "managesChildren"),  # Broker-J's
    *("Boolean.valueOf", "CountDownLatch", "DataOutput", "runnable", "synchronized", "void"),  # Java's
    *("broker_heartbeat", "broker_password", "broker_transport", "broker_user"),  # Celery's and kombu's
    *("Broadcast", "control_queue_durable", "eta", "event_queue_durable", "sqla", "task_queues"),
    *("Hashtable", "PROVIDER_URL", "RuntimeException", "hashCode", "initCause", "println"),
}
# What stands for a value, or is a part of a name.
PARTS = {
    *("CLIENT_ID", "NNNN-title.md", "PYJMS_ALERT_MESSAGES", "SERVER_KEY", "_NODE", "virtualhost"),
    *("_compensated", "_compensating", "_completed", "_total", "again_and_again"),
    *("process_", "pyjmsconf_", "pyspark_", "python_"),
}
_WITHOUT_MEMBERS = {"ABC", "Generic", "NamedTuple", "Protocol", "object"}


@dataclass(slots=True)
class Class:
    """All classes of one name."""

    members: set[str] = field(default_factory=set)
    bases: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Known:
    """What may be mentioned."""

    words: set[str] = field(default_factory=set)
    classes: defaultdict[str, Class] = field(default_factory=lambda: defaultdict(Class))
    files: set[str] = field(default_factory=set)
    """Each file and folder by all ends of its path."""
    told: set[int] = field(default_factory=set)
    """Which nodes are docstrings."""

    def add_path(self, path: str) -> None:
        """Know a file, and the folders that it stands in."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            self.files.update("/".join(parts[begin:end]) for begin in range(end))

    def add_source(self, tree: ast.Module) -> None:
        """Know the names in a module, and the words of its texts, but for its docstrings."""
        for node in ast.walk(tree):
            self._add_node(node)

    def _add_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.words.add(node.id)
        elif isinstance(node, ast.Attribute):
            self.words.add(node.attr)
        elif isinstance(node, (ast.arg, ast.keyword)):
            self.words.add(node.arg or "")
        elif isinstance(node, ast.alias):
            self.words.update(re.split(r"\W", f"{node.name}.{node.asname}"))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, (str, bytes)) and id(node) not in self.told:
                self.words.update(re.findall(r"\w+", str(node.value)))
        elif isinstance(node, ast.Expr) and is_stub_of_a_body(node):
            self.told.add(id(node.value))  # a docstring, which comes after this
        elif isinstance(node, _DEFINITIONS):
            self.words.add(node.name)
            if isinstance(node, ast.ClassDef):
                self._add_class(node)

    def _add_class(self, node: ast.ClassDef) -> None:
        known = self.classes[node.name]
        for base in node.bases:
            target = base.value if isinstance(base, ast.Subscript) else base
            known.bases.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
        for child in ast.walk(node):
            if isinstance(child, _DEFINITIONS):
                known.members.add(child.name)
            elif isinstance(child, (ast.Name, ast.Attribute)) and isinstance(child.ctx, ast.Store):
                known.members.add(child.id if isinstance(child, ast.Name) else child.attr)

    def has_member(self, owner: str, member: str) -> bool:
        """Whether a class, or what it inherits from, may have a member; of a class that is not ours nobody knows."""
        if owner not in self.classes:
            return not owner or owner in FOREIGN or (owner in self.words and member in self.words)
        found = self.classes[owner]
        is_own = bool({member, _snake(member)} & found.members)
        return is_own or any(self.has_member(base, member) for base in found.bases - {owner, *_WITHOUT_MEMBERS})

    def lacks(self, mention: str) -> list[str]:
        """Return what of a mention is not there."""
        if mention in FOREIGN | PARTS:
            return []
        if _FILE.fullmatch(mention):
            return [] if mention.rstrip("/") in self.files else [mention]
        member = _MEMBER.fullmatch(mention)
        if member is not None and not self.has_member(member["owner"], member["member"]):
            return [mention]
        words = set(_WORD.findall(mention)) - self.words - FOREIGN - PARTS
        return sorted(word for word in words if not _NO_NAME.fullmatch(word))


@cache
def known() -> Known:
    """Return what stands in the sources of the project, save for these tests, which name what is not there."""
    found = Known()
    for path in python_files(*EVERYTHING):
        found.add_path(name_of(path))
        if not name_of(path).startswith("tests/tidy/"):
            found.words.update(path.relative_to(ROOT).with_suffix("").parts)
            found.add_source(parse(path))
    for path in _others():
        found.add_path(name_of(path))
        if path.suffix != ".md":
            found.words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return found


def _others() -> Iterator[Path]:
    """Yield the files that are no Python, save for pictures, data and what is built."""
    for folder in ("docs", *LIBRARY):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in _OTHER_SOURCES | {".md"} and "_build" not in path.parts and path.is_file():
                yield path
    # By their names: whatever else stands at the top, tools have left there.
    yield from (ROOT / name for name in ("Makefile", "README.md", "pyproject.toml"))


def _snake(name: str) -> str:
    """Return the Python name of a Java name, which is derived from it (`pyjms.api.names`)."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def mentions(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield line and text of what stands in backticks, but for blocks of code."""
    is_code = False
    for number, line in enumerate(lines, 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and "`" in line:
            yield from ((number, match[1]) for match in _MENTION.finditer(line))


def offences(name: str, text: str) -> list[str]:
    """Return what a page, or a module, mentions that is not there."""
    return [
        f"{name}:{number}: {what} in `{mention}`"
        for number, mention in mentions(text.splitlines())
        for what in known().lacks(mention)
    ]


def test_pages_mention_what_is_there() -> None:
    pages = {name_of(path): path.read_text(encoding="utf-8") for page in PAGES for path in (ROOT / page).rglob("*.md")}
    found = [each for name, text in pages.items() if REPLACED not in text for each in offences(name, text)]
    assert pages
    assert not found, "\n".join(found)


def test_modules_mention_what_is_there() -> None:
    found = [
        each for path in python_files(*LIBRARY) for each in offences(name_of(path), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "`test_no_file_of_ours.py`",
        "see `core/no_file_of_ours.py`",
        "``NoClassOfOurs``",
        "`GroupCommit.no_member_of_ours`",
        "`pyjms.spi.NoClassOfOurs`",
        "`GroupCommit.submit` and `no_name_of_ours(1)`",
        "`Queue.is_null`",  # a member of another class
        "```python\nx\n```\n`no_name_of_ours`",
    ],
)
def test_what_is_not_there_is_found(text: str) -> None:
    assert len(offences("a page", text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`test_mentions.py`, `core/` and `core/queue/queue.py`",
        "`docs/design/threads.md`",
        "`GroupCommit.submit` and `pyjms.spi.provider`",
        "`Queue.handle`",  # inherited
        "`SUBSCRIBE`, `NAME/LETTER`, `pyjms_queue_message_count`",
        "```python\n`no_name_of_ours`\n```",
    ],
)
def test_what_is_there_is_left_alone(text: str) -> None:
    assert not offences("a page", text)
