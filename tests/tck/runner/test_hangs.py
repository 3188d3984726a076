from __future__ import annotations

from pyjms_tck import judge_plugin as failures
from pyjms_tck.runner.pool import describe_hang

PACKAGE = failures.__file__.rpartition("/")[0]
DUMP = f"""Timeout (0:00:01)!
Thread 0x00007f0001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "{PACKAGE}/background.py", line 40 in _run

Thread 0x00007f0003 (most recent call first):
  File "{PACKAGE}/runner/messages.py", line 30 in _listen
  File "/usr/lib/python3.11/threading.py", line 975 in run

Thread 0x00007f0002 (most recent call first):
  File "/elsewhere/provider.py", line 7 in receive
  File "{PACKAGE}/suite/exchange.py", line 12 in take
  File "{PACKAGE}/suite/chapter_04/test_4_5.py", line 30 in test_it
  File "/elsewhere/_pytest/python.py", line 166 in pytest_pyfunc_call
  File "{PACKAGE}/runner/worker.py", line 9 in run
"""


def test_the_place_is_that_in_the_conformance_test() -> None:
    where, _ = describe_hang(DUMP)
    assert where == "suite/chapter_04/test_4_5.py:30"


def test_the_threads_are_shown_without_the_machinery() -> None:
    _, details = describe_hang(DUMP)
    assert 'File "/elsewhere/provider.py", line 7 in receive' in details
    assert 'File "pyjms_tck/suite/exchange.py", line 12 in take' in details
    assert "_pytest" not in details
    assert "worker.py" not in details
    assert "Timeout" not in details
    assert details.count("Thread 0x") == 2, "the thread that waits for orders says nothing"
    assert PACKAGE not in details


def test_nothing_known_is_nothing_told() -> None:
    assert describe_hang("") == (None, "")
