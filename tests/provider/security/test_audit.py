"""The audit log: what a record says, and that no secret is in it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.testing import VirtualClock
from pyjms_provider.security.audit import MASK, AuditAction, AuditLog, AuditRecord, AuditResult, masked
from pyjms_provider.security.contracts import Principal

RECORD = AuditRecord(
    action=AuditAction.CHANGE,
    who=Principal(name="alice", provider="users"),
    target="broker/queue/orders",
    result=AuditResult.DONE,
    peer="192.0.2.7:50000",
    before={"max_messages": 5},
    after={"max_messages": 7},
)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_says_who_did_what_when_and_with_which_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyjms.audit")
    clock = VirtualClock(start_ms=0)
    log = AuditLog(clock, path=tmp_path / "audit.jsonl")
    clock.advance(1500)
    log.write(RECORD)
    log.close()
    expected = {
        "time": "1970-01-01T00:00:01.500+00:00",
        "code": "PYJMS-AUDIT-2",
        "action": "change",
        "result": "done",
        "who": "alice",
        "provider": "users",
        "peer": "192.0.2.7:50000",
        "target": "broker/queue/orders",
        "before": {"max_messages": 5},
        "after": {"max_messages": 7},
    }
    assert lines(tmp_path / "audit.jsonl") == [expected]
    assert caplog.messages[0].startswith("PYJMS-AUDIT-2 {")
    assert json.loads(caplog.messages[0].removeprefix("PYJMS-AUDIT-2 ")) == expected
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_each_action_has_its_own_code() -> None:
    assert len({action.value for action in AuditAction}) == len(AuditAction)


@pytest.mark.parametrize(
    "attributes",
    [
        {"password": "s3cret"},
        {"keyStorePassword": "s3cret"},
        {"key_store_passphrase": "s3cret"},
        {"client_secret": "s3cret"},
        {"privateKey": "s3cret"},
        {"declared": "s3cret"},
        {"context": {"db.password": "s3cret"}},
        {"list": [{"token": "s3cret"}]},
        {"store": "postgresql://pyjms:s3cret@db/pyjms"},
        {"note": "$argon2id$v=19$s3cret"},
        {"note": "SCRAM-SHA-256$4096:s3cret"},
        {"note": "pyjms-secret:1:abc:s3cret"},
        {"note": "-----BEGIN EC PRIVATE KEY-----\ns3cret"},
        {"note": "eyJhbGciOi.eyJpc3Mi.s3cret"},
        {"data": b"s3cret"},
        {"deep": [[[[[[[[[["s3cret"]]]]]]]]]]},
    ],
    ids=str,
)
def test_no_secret_gets_into_the_log(
    attributes: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    log = AuditLog(VirtualClock(), path=tmp_path / "audit.jsonl")
    log.write(replace(RECORD, before=attributes, after=attributes, secure=frozenset({"declared"})))
    log.close()
    assert len(lines(tmp_path / "audit.jsonl")) == 1
    assert "s3cret" not in caplog.text + (tmp_path / "audit.jsonl").read_text()


def test_what_is_no_secret_stays_readable() -> None:
    attributes = {"name": "orders", "url": "stomp://127.0.0.1:61613", "limits": {"max": 5}, "on": True, "none": None}
    assert masked(attributes) == attributes
    assert masked({"url": "db://u:p@host/"}) == {"url": f"db://u:{MASK}@host/"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values, max_size=5), st.text())
def test_anything_can_be_logged_as_one_line(attributes: dict[str, object], text: str) -> None:
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("pyjms.audit")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        who = Principal(name=text)
        AuditLog(VirtualClock()).write(replace(RECORD, who=who, target=text, after=attributes, peer=text, reason=text))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert len(heard) == 1
    assert heard[0].isascii()
    assert heard[0].isprintable()


def test_huge_values_are_cut(tmp_path: Path) -> None:
    log = AuditLog(VirtualClock(), path=tmp_path / "audit.jsonl")
    log.write(replace(RECORD, target="x" * 10**6, after={"a": "y" * 10**6, "b": list(range(10**5))}))
    log.close()
    assert (tmp_path / "audit.jsonl").stat().st_size < 20_000


def test_a_refused_log_in_has_nobody_and_the_offered_name(tmp_path: Path) -> None:
    log = AuditLog(VirtualClock(), path=tmp_path / "audit.jsonl")
    log.write(
        AuditRecord(action=AuditAction.LOG_IN, who=None, target="root", result=AuditResult.REFUSED, reason="wrong")
    )
    log.close()
    record = lines(tmp_path / "audit.jsonl")[0]
    assert (record["target"], record["result"], "who" in record) == ("root", "refused", False)


def test_the_file_is_rotated_by_size_and_all_parts_are_private(tmp_path: Path) -> None:
    log = AuditLog(VirtualClock(), path=tmp_path / "audit.jsonl", size=1000, kept=2)

    def write() -> None:
        for _ in range(20):
            log.write(RECORD)

    threads = [Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    log.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    for name in files:
        path = tmp_path / name
        assert path.stat().st_size <= 1000
        assert path.stat().st_mode & 0o777 == 0o600
        assert all(line["who"] == "alice" for line in lines(path))


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    for _ in range(2):
        log = AuditLog(VirtualClock(), path=tmp_path / "audit.jsonl")
        log.write(RECORD)
        log.close()
    assert len(lines(tmp_path / "audit.jsonl")) == 2


def test_a_file_that_cannot_be_written_is_told_and_hinders_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    log = AuditLog(VirtualClock(), path="/dev/full")
    log.write(RECORD)
    log.close()
    assert "PYJMS-AUDIT-9" in caplog.text
    assert "PYJMS-AUDIT-2" in caplog.text


def test_a_record_after_the_close_is_in_the_log_and_opens_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "audit.jsonl"
    log = AuditLog(VirtualClock(), path=path)
    log.close()
    path.unlink()
    log.write(RECORD)
    assert not path.exists()
    assert "PYJMS-AUDIT-2" in caplog.text
