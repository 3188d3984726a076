"""Reads what `faulthandler` writes about a test that takes too long: where each thread stands."""

from __future__ import annotations

import re

from pyjms_tck.failures import without_places

__all__ = ["describe_hang"]

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in ')
_SECTION = re.compile(r"^(?=(?:Current thread|Thread) 0x)", re.MULTILINE)
_OF_ORDERS = re.compile(r'File "[^"]*pyjms_tck.runner.orders\.py", line \d+ in ')
# Frames of the machinery, which say nothing about the provider.
_MACHINERY = re.compile(r'File "[^"]*(_pytest|pluggy|pyjms_tck/runner|pyjms_tck.runner|<frozen)[^"]*", line \d+ in ')


def describe_hang(dump: str) -> tuple[str | None, str]:
    """Return file and line of the conformance test that hangs, if one is seen, and where all threads stand."""
    text = without_places("".join(section for section in _SECTION.split(dump) if not _waits_for_orders(section)))
    lines = [line for line in text.splitlines() if not _MACHINERY.search(line) and not line.startswith("Timeout")]
    where = None
    for line in lines:
        match = _FRAME.search(line)
        if match and "pyjms_tck/" in match["file"].replace("\\", "/"):
            where = f"{match['file'].rpartition('pyjms_tck/')[2]}:{match['line']}"
            if "/test_" in match["file"] or "_suite" in match["file"]:
                break
    return where, "\n".join(lines).strip()


def _waits_for_orders(section: str) -> bool:
    """Say whether this is the worker's own thread, which has nothing to do with the test."""
    return bool(_OF_ORDERS.search(section.partition("\n")[2].partition("\n")[0]))
