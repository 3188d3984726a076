"""Recorded histories: the operations of clients with their outcomes, recorded, and judged by the guarantees of JMS 1.1.

Recording needs the extra `history` (pyarrow). A recording is switched on by the URL (``vm://shop?record=DIR``), by
`record`, or by the pytest fixture ``jms_recording``; `check` judges it, and so does ``pyjms history check DIR``.
"""

from pyjms.history.check import check
from pyjms.history.events import Event, History
from pyjms.history.findings import Finding, Report
from pyjms.history.reading import HistoryError, read
from pyjms.history.recording import Recording, record
from pyjms.history.rules import RULES, Rule, Verdict

__all__ = [
    "RULES",
    "Event",
    "Finding",
    "History",
    "HistoryError",
    "Recording",
    "Report",
    "Rule",
    "Verdict",
    "check",
    "read",
    "record",
]
