"""``pyjms broker salvage``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyjms import ConnectionFactory
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from tests.pyjms.demo.command_line import Run

PAGE = 4096


def test_it_tells_people_and_programs(run_pyjms: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = "vm://salvage-command?store=sqlite:///shop.db"
    with ConnectionFactory(url).create_connection() as connection, connection.create_session(True) as session:
        producer = session.create_producer(session.create_queue("orders"))
        for number in range(20):
            producer.send(session.create_text_message(f"<{number}>" + "x" * 3000))
        session.commit()
    find_provider("vm").stop_broker(ProviderUrl.parse(url))
    whole = bytearray(Path("shop.db").read_bytes())
    page = whole.index(b"<7>") // PAGE
    whole[page * PAGE : (page + 1) * PAGE] = b"\xff" * PAGE
    Path("shop.db").write_bytes(whole)
    code, out, _ = run_pyjms("broker", "salvage", "shop.db", "new.db")
    assert code == 0
    assert "message  19" in out
    assert "what 1 key had, at most" in out
    assert "19 messages in new.db; all come flagged" in out
    code, out, _ = run_pyjms("broker", "salvage", "shop.db", "other.db", "--json")
    assert (code, json.loads(out)["messages"]) == (0, 19)
    code, _, err = run_pyjms("broker", "salvage", "shop.db", "new.db")
    assert code == 2
    assert err.startswith("new.db is there already")
