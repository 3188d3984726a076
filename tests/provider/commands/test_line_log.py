"""The log for people: what clients chose as names makes no lines of its own, and steers no terminal."""

from __future__ import annotations

import logging

from pyjms_provider.commands.broker import LineFormatter

FORGED = "y\n2026-11-23 04:59:59.000 INFO pyjms.audit PYJMS-AUDIT-5 boss logged in \x1b[31m\x9b2J"


def test_a_record_is_one_line_and_its_traceback_is_set_back() -> None:
    failure = (ValueError, ValueError(FORGED), None)
    record = logging.LogRecord("pyjms", logging.WARNING, "", 0, "queue %s é", (FORGED,), failure)
    first, *others = LineFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert first.startswith("WARNING queue y\\n2026-11-23 04:59:59.000 INFO pyjms.audit")
    assert first.endswith("\\x1b[31m\\x9b2J é")
    assert others[0] == "    ValueError: y"
    assert all(line.startswith("    ") and line.isprintable() for line in others)
