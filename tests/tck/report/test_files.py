"""Reports that are written whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from pyjms_tck.report.junit import check_can_write, write_whole


def test_a_report_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    for text in ("good", "bétter"):
        check_can_write(file)
        write_whole(file, text)
        assert file.read_text("utf-8") == text
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


def test_an_earlier_report_survives_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.json"
    file.write_text("good", "utf-8")

    def fill(path: Path, data: bytes) -> int:
        with path.open("wb") as part:
            part.write(data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, "better")
    assert file.read_text("utf-8") == "good"
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


def test_what_a_link_names_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    file, link = tmp_path / "report.json", tmp_path / "latest.json"
    file.write_text("good", "utf-8")
    link.symlink_to(file)
    write_whole(link, "better")
    assert link.is_symlink()
    assert file.read_text("utf-8") == "better"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    check_can_write(pipe)
    write_whole(pipe, "report")
    reader.join(10)
    assert read == ["report"]
    assert pipe.is_fifo()


def test_a_folder_is_no_place_for_a_report(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it is a folder"):
        check_can_write(tmp_path)
    with pytest.raises(OSError, match="no folder"):
        check_can_write(tmp_path / "no" / "report.json")


def test_a_folder_without_the_right_to_write_is_seen_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the tests may run as root, who has every right
    with pytest.raises(OSError, match="no right to write"):
        check_can_write(tmp_path / "report.json")
