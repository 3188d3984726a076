"""No test that cites an item reaches the product by private names alone; and the look that finds those that do."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.tidy.source import ROOT, name_of, parse, python_files
from tests.traceability.doors import Doors, Source

HEAD = """
import subprocess
import pytest
from pyjms import ConnectionFactory
from pyjms.runtime import _hidden
from pyjms.runtime.session import JmsSession
from tests.helpers import opened, stolen

@pytest.fixture
def session():
    return ConnectionFactory("vm://x").create_connection().create_session()

def sent(session, text):
    session.create_producer(None).send(text)

def peeked(session):
    return session._inbox

class Shop:
    def __init__(self):
        self._factory = ConnectionFactory("vm://x")
    def look(self):
        return self._factory._broker
"""
HELPERS = """
from pyjms import ConnectionFactory

def opened():
    return ConnectionFactory("vm://x").create_connection()

def stolen(connection):
    return connection._sessions
"""


def judged(body: str, head: str = "", parameters: str = "session, monkeypatch, tmp_path") -> bool:
    lines = "\n    ".join(body.splitlines())
    cited = f'@pytest.mark.realises("A-1")\n{head}\ndef test_it({parameters}):\n    {lines}\n'
    source, helpers = Source(ast.parse(HEAD + cited)), Source(ast.parse(HELPERS))
    (test,) = source.citing_tests()
    assert (test.name, sorted(test.ids)) == ("test_it", ["A-1"])
    return Doors({"tests.helpers": helpers}.get).is_public(source, test.function)


@pytest.mark.parametrize(
    "body",
    [
        "assert session._state == 3",
        "inbox = session._inbox\nassert inbox.size() == 3\ninbox.clear()",
        "for each in session._inbox.entries():\n    each.settle()",
        "seen = [each.text for each in session._inbox]\nassert seen",
        "with session._lock as lock:\n    lock.release()",
        "_hidden.work()",
        "monkeypatch.setattr(JmsSession, '_commit', None)",
        "with monkeypatch.context() as patch:\n    patch.setattr(JmsSession, 'commit', None)",
        "assert peeked(session)",
        "assert stolen(session)",
        "assert (tmp_path / 'x').read_text() == ''",
        "value: JmsSession = 3\nassert value == 3",
        "session.commit()\nassert session._unit is None",
        "ConnectionFactory('vm://x')\nassert _hidden.count == 1\nassert session._a and session.b",
    ],
)
def test_a_test_that_reaches_private_names_alone_is_found(body: str) -> None:
    assert not judged(body)


@pytest.mark.parametrize(
    "body",
    [
        "session.commit()",
        "found = session\nassert found.transacted",
        "sent(session, 'x')",
        "assert opened()",
        "assert Shop().look()",
        "first, _ = session\nfirst.commit()",
        "session()",
        "with pytest.raises(JmsSession.Error):\n    session._fail()",
        "subprocess.run(['pyjms', 'send'])",
        "session._fail()\nassert session.is_closed",
        "monkeypatch.setattr(JmsSession, '_commit', None)\nsession.commit()",
    ],
)
def test_a_test_that_uses_something_public_is_not(body: str) -> None:
    assert judged(body)


def test_what_a_case_brings_is_looked_at_where_it_is_written() -> None:
    head = '@pytest.mark.parametrize("use", [{}])'
    assert judged("use.go()", head.format("ConnectionFactory"), "use")
    assert not judged("use.go()", head.format("3"), "use")


def test_marks_of_cases_classes_and_modules_are_citations() -> None:
    text = """
import pytest
pytestmark = [pytest.mark.realises("M-1"), pytest.mark.timeout(5)]

@pytest.mark.realises("C-1")
class TestIt:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.realises("P-1"))])
    def test_one(self, x): pass

def test_two(): pass
def helper(): pass
"""
    found = {test.name: set(test.ids) for test in Source(ast.parse(text)).citing_tests()}
    assert found == {"TestIt::test_one": {"M-1", "C-1", "P-1"}, "test_two": {"M-1"}}


@cache
def load(module: str) -> Source | None:
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return Source(parse(path)) if path.is_file() else None


def test_each_citing_test_of_this_project_comes_in_by_a_public_door() -> None:
    doors, cited, refused = Doors(load), 0, []
    for path in python_files("tests"):
        source = load(name_of(path).removesuffix(".py").replace("/", "."))
        assert source is not None
        for test in source.citing_tests():
            cited += 1
            if not doors.is_public(source, test.function):
                refused.append(f"{name_of(path)}::{test.name} cites {', '.join(sorted(test.ids))}")
    assert cited > 900, "the look finds the tests that cite"
    assert not refused, "it reaches the product by private names alone; use what a user can use:\n" + "\n".join(refused)
