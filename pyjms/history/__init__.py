"""Recorded histories: what clients asked for and got, written down, and judged by what JMS 1.1 guarantees.

Recording needs the extra `history` (pyarrow). A recording is switched on by the URL (``vm://shop?record=DIR``), by
`record`, or by the pytest fixture ``jms_recording``; `check` judges it, and so does ``pyjms history check DIR``.
"""

from pyjms.history.events import Event
from pyjms.history.reading import History, HistoryError, read
from pyjms.history.recording import Recording, record

__all__ = ["Event", "History", "HistoryError", "Recording", "read", "record"]
