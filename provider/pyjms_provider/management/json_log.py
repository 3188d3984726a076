"""Log records as JSON, one a line, with the stable code of each message in a field of its own."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Final

_CODE: Final = re.compile(r"PYJMS(?:-[A-Z]+)+-\d+")


class JsonFormatter(logging.Formatter):
    """Set on a handler: ``handler.setFormatter(JsonFormatter())``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON in ASCII: `time` in UTC, `level`, `logger`, `code`, `message`, `error`."""
        message = record.getMessage()
        code = _CODE.match(message)
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        data = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "code": None if code is None else code[0],
            "message": message[0 if code is None else code.end() :].lstrip(),
            "error": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in data.items() if value is not None})
