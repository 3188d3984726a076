"""The audit log: all changes and refused attempts, with their user, time and result.

Each record is one line of the logger ``pyjms.audit`` with a stable code (`AuditAction`), and optionally one line of JSON in a
file that only its owner can read. It never contains secrets: values of attributes that are declared as secure or named like
secrets are masked, as are values that look like an encrypted secret, a hash, or a URL with a password.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Lock
from typing import Final, TextIO

from pyjms.spi.clock import Clock
from pyjms_provider.security.contracts import Principal
from pyjms_provider.security.logins import network_of

MASK: Final = "********"
_log = logging.getLogger("pyjms.audit")
_errors = logging.getLogger(__name__)
_SECRET_NAME: Final = re.compile(
    r"passw|passcode|passphrase|pwd|secret|token|credential|verifier|private.?key|api.?key|authori[sz]ation",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(
    r"pyjms-secret:|\$argon2|SCRAM-SHA-|-----BEGIN [A-Z ]*PRIVATE KEY|eyJ[\w-]{1,500}\.eyJ"
)
_IN_QUERY: Final = re.compile(rf"((?:{_SECRET_NAME.pattern})[\w.-]{{0,40}}\s?=\s?)[^&;,\s]+", re.IGNORECASE)
_WORD: Final = re.compile(r"\S+")
_USER_END: Final = "@"
_DEPTH: Final = 8
_LONGEST_TEXT: Final = 4096
_MOST_ITEMS: Final = 200


class AuditAction(Enum):
    """The kind of action; the value is the code of the record."""

    CREATE = "PYJMS-AUDIT-1"
    CHANGE = "PYJMS-AUDIT-2"
    DELETE = "PYJMS-AUDIT-3"
    OPERATION = "PYJMS-AUDIT-4"
    """Purge, move, pause, settle a branch, and the like."""
    LOG_IN = "PYJMS-AUDIT-5"
    LOG_OUT = "PYJMS-AUDIT-6"


class AuditResult(Enum):
    """The result of an action."""

    DONE = "done"
    REFUSED = "refused"
    """Access was denied, or authentication failed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One action, or one attempt."""

    action: AuditAction
    who: Principal | None
    """The user; None: unknown, as for a refused log-in."""
    target: str
    """The path of the object: ``broker/virtualhost/shop/queue/orders``; for a log-in the user name that was given."""
    result: AuditResult
    peer: str = ""
    """The address of the client."""
    operation: str = ""
    """The name of the operation, if the action is one."""
    before: Mapping[str, object] = field(default_factory=dict)
    """The old values of changed attributes; secrets are masked by the log."""
    after: Mapping[str, object] = field(default_factory=dict)
    """Their new values, or the arguments of an operation."""
    secure: frozenset[str] = frozenset()
    """The names of the attributes that are declared as secrets."""
    reason: str = ""
    """The reason of a refusal or failure; must not contain secrets."""


class AuditLog:
    """Writes audit records. Safe to use from any thread; a record is written when `write` returns. Never raises."""

    def __init__(self, clock: Clock, *, path: str | Path | None = None, size: int = 10_000_000, kept: int = 10) -> None:
        """`path`: of the file; None: only the logger. At `size` bytes the file is renamed to ``PATH.1``; `kept` old files are kept.

        Raises `OSError` if the file cannot be opened.
        """
        self._clock = clock
        self._file = None if path is None else _AuditFile(Path(path), size, kept)

    def write(self, record: AuditRecord) -> None:
        """Write a record."""
        line = json.dumps(self._data(record), ensure_ascii=True, default=str)
        _log.info("%s %s", record.action.value, line)
        if self._file is not None:
            # The file is not a handler of the logger, as the level of the logger
            # must not affect the audit file.
            self._file.handle(_log.makeRecord(_log.name, logging.INFO, "", 0, line, (), None))

    def close(self) -> None:
        """Close the file. A record that cannot be written is reported in the log; later records are written to the log only."""
        if self._file is not None:
            try:
                self._file.close()
            except OSError:  # the last record is still buffered, and cannot be written
                self._file.tell_failure()

    def _data(self, record: AuditRecord) -> dict[str, object]:
        who = record.who
        time = datetime.fromtimestamp(self._clock.time_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        data: dict[str, object] = {
            "time": time,
            "code": record.action.value,
            "action": record.action.name.lower(),
            "result": record.result.value,
            "who": None if who is None else who.name[:_LONGEST_TEXT],
            "provider": None if who is None else who.provider,
            "peer": record.peer,
            "target": _masked_text(record.target),
            "operation": record.operation,
            "before": masked(record.before, record.secure),
            "after": masked(record.after, record.secure),
            "reason": _masked_text(record.reason),
        }
        return {name: value for name, value in data.items() if value not in ("", {}, None)}


def masked(attributes: Mapping[str, object], secure: Iterable[str] = ()) -> dict[str, object]:
    """Return `attributes` truncated to a reasonable size, with everything masked, at any depth, that is or looks like a secret."""
    hidden = frozenset(secure)
    return {
        str(name)[:_LONGEST_TEXT]: MASK if _is_secret(str(name), hidden) else _masked(value, hidden, 0)
        for name, value in list(attributes.items())[:_MOST_ITEMS]
    }


def _is_secret(name: str, secure: frozenset[str]) -> bool:
    return name in secure or _SECRET_NAME.search(name) is not None


def _masked(value: object, secure: frozenset[str], depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= _DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {
            str(name): MASK if _is_secret(str(name), secure) else _masked(item, secure, depth + 1)
            for name, item in list(value.items())[:_MOST_ITEMS]
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(item, secure, depth + 1) for item in list(value)[:_MOST_ITEMS]]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return _masked_text(str(value), secure, depth)


def _masked_text(text: str, secure: frozenset[str] = frozenset(), depth: int = 0) -> str:
    """Truncate a text, and mask everything that looks like a secret, or like a part of one at the end.

    The text may be JSON: a structured value from a form, a variable or a command line.
    """
    is_cut, shown = len(text) > _LONGEST_TEXT, text[:_LONGEST_TEXT]
    if _SECRET_VALUE.search(shown):
        return MASK
    if shown.lstrip()[:1] in {"{", "["}:
        # Truncated JSON cannot be parsed, so it is unknown which of its values are secrets.
        if is_cut:
            return MASK
        try:
            read = json.loads(shown)
        except (ValueError, RecursionError):
            if _SECRET_NAME.search(shown):
                return MASK
        else:
            found = _masked(read, secure, depth + 1)
            return shown if found == read else json.dumps(found)
    end = len(shown) if is_cut else -1
    shown = _WORD.sub(lambda found: _without_password(found[0], is_cut=found.end() == end), shown)
    return _IN_QUERY.sub(rf"\1{MASK}", shown) + ("…" if is_cut else "")


def _without_password(word: str, *, is_cut: bool) -> str:
    """Remove the password of a URL from a word: everything up to the last @, as an unescaped password may contain / and @.

    `is_cut`: the text is truncated after the word, where that @ may have been.
    """
    scheme, found, rest = word.partition("://")
    end = len(rest) if is_cut else rest.rfind(_USER_END)
    user, colon, _ = rest[: max(end, 0)].partition(":")
    return f"{scheme}://{user}:{MASK}{rest[end:]}" if found and colon else word


class _AuditFile(RotatingFileHandler):
    """A file of JSON lines, mode 600. Python's handler does the rotation, under a lock that only serves this purpose."""

    def __init__(self, path: Path, size: int, kept: int) -> None:
        super().__init__(path, maxBytes=size, backupCount=kept, encoding="utf-8")
        self._is_over = False

    def emit(self, record: logging.LogRecord) -> None:
        # Python's handler would open the file again, and nothing would close it.
        if not self._is_over:
            super().emit(record)

    def close(self) -> None:
        self.acquire()  # the lock under which `emit` is called
        try:
            self._is_over = True
            super().close()
        finally:
            self.release()

    def _open(self) -> TextIO:  # type: ignore[override] # the handler asks for no more than a text file
        # Python's handler would use the mode of the umask.
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(handle, "a", encoding="utf-8", newline="\n")

    def handleError(self, record: logging.LogRecord) -> None:
        """Log a record that cannot be written to the file, so that it is not lost without a trace."""
        self.tell_failure()

    def tell_failure(self) -> None:
        """Log the error that is being handled."""
        _errors.exception("PYJMS-AUDIT-9 a record could not be written to %s; it stands in the log", self.baseFilename)


_QUIET_MS: Final = 60_000
_REFUSED_BURST: Final = 100
_REFUSED_INTERVAL_MS: Final = 1_000
_REMEMBERED: Final = 1_000
_LONGEST_NAME: Final = 256
_Key = tuple[str, str, AuditResult]


class LoginAudit:
    """Writes records of log-ins, with limits for repeated and refused ones. Safe to use from any thread. Never raises."""

    def __init__(self, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._lock = Lock()
        self._alike: OrderedDict[_Key, tuple[float, int]] = OrderedDict()
        """For equal log-ins: when the next record may be written, and how many were omitted."""
        self._refused = 0.0
        """The used part of the burst of refusals."""
        self._refused_ms = 0.0
        self._left_out = 0
        """The number of omitted refusals that are counted neither in a record nor in `_alike`."""

    def note(self, record: AuditRecord) -> None:
        """Write a record of a log-in, or count it as omitted."""
        # The name comes from an unauthenticated client: its length must not determine the memory of the counts.
        record = replace(record, target=record.target[:_LONGEST_NAME])
        name = record.target if record.who is None else f"{record.who.name} of {record.who.provider}"
        with self._lock:
            left_out = self._admit((network_of(record.peer), name, record.result))
        # Written without the lock, so that a slow disk delays only this log-in.
        if left_out is not None:
            self._audit.write(_with_count(record, left_out))

    def close(self) -> None:
        """Write a record with the number of refusals that are in no record yet."""
        with self._lock:
            left_out = self._left_out + sum(
                count for (_, _, result), (_, count) in self._alike.items() if result is AuditResult.REFUSED
            )
            self._alike.clear()
            self._left_out = 0
        if left_out:
            record = AuditRecord(action=AuditAction.LOG_IN, who=None, target="", result=AuditResult.REFUSED)
            self._audit.write(_with_count(record, left_out))

    def _admit(self, key: _Key) -> int | None:
        """Return the number of records omitted before this one; None: omit this one, too. The lock is held."""
        now_ms = self._clock.monotonic_ms()
        until_ms, count = self._alike.get(key, (now_ms, 0))
        if now_ms < until_ms:
            self._alike[key] = until_ms, count + 1
            return None
        # The common limit is only for refusals: anybody can cause them, with ever new names, and displace older records.
        if key[2] is AuditResult.REFUSED:
            if not self._takes_refusal(now_ms):
                self._left_out += 1
                return None
            count, self._left_out = count + self._left_out, 0
        self._alike[key] = now_ms + _QUIET_MS, 0
        self._alike.move_to_end(key)
        if len(self._alike) > _REMEMBERED:
            (_, _, result), (_, forgotten) = self._alike.popitem(last=False)
            # The refusals of a dropped entry are added to the next record, so that their number stays exact.
            self._left_out += forgotten if result is AuditResult.REFUSED else 0
        return count

    def _takes_refusal(self, now_ms: float) -> bool:
        # The burst drains by the clock, without a timer: the drained part is computed at the next refusal.
        drained = (now_ms - self._refused_ms) / _REFUSED_INTERVAL_MS
        self._refused, self._refused_ms = max(0.0, self._refused - drained), now_ms
        if self._refused > _REFUSED_BURST - 1:
            return False
        self._refused += 1
        return True


def _with_count(record: AuditRecord, left_out: int) -> AuditRecord:
    return replace(record, after={**record.after, "more": left_out}) if left_out else record
