"""Log records as JSON."""

from __future__ import annotations

import json
import logging

from pyjms_provider.commands.broker import JsonFormatter


def told(message: str, *arguments: object, error: BaseException | None = None) -> dict[str, str]:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("pyjms.x", logging.WARNING, "x.py", 1, message, arguments, info)
    record.created = 1_000_000_000.5
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, str] = json.loads(line)
    return found


def test_a_record_is_one_line_with_its_code_apart() -> None:
    found = told("PYJMS-MODEL-2 %s could not\nbe opened é", "queue")
    assert found["time"] == "2001-09-09T01:46:40.500+00:00"
    assert (found["code"], found["level"], found["logger"]) == ("PYJMS-MODEL-2", "WARNING", "pyjms.x")
    assert found["message"] == "queue could not\nbe opened é"


def test_a_record_without_a_code_or_with_an_error_is_told_too() -> None:
    assert "code" not in told("plain")
    assert told("failed", error=ValueError("inner"))["error"] == "ValueError: inner"


def test_a_record_that_was_to_have_an_error_and_has_none_is_told_too() -> None:
    """As ``exc_info=is_wanted`` makes one, and ``exc_info=True`` where nothing was raised."""
    for info in (False, None, ()):
        record = logging.LogRecord("pyjms.x", logging.WARNING, "x.py", 1, "plain", (), None)
        record.exc_info = info  # type: ignore[assignment]
        assert "error" not in json.loads(JsonFormatter().format(record))
