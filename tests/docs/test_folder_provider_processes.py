"""The provider of the authors' guide between processes, found by its entry point; and what a kill leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.pyjms.spi.folder import GUIDE
from tests.tidy.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[str]]

PROGRAM = """
import sys
from pyjms import ConnectionFactory, Session

role, url, *arguments = sys.argv[1:]
connection = ConnectionFactory(url).create_connection()
connection.start()
mode = Session.CLIENT_ACKNOWLEDGE if role == "hold" else Session.AUTO_ACKNOWLEDGE
session = connection.create_session(False, mode)
orders = session.create_queue("orders")

if role == "send":
    producer = session.create_producer(orders)
    for text in arguments:
        producer.send(session.create_text_message(text))
else:
    consumer = session.create_consumer(orders)
    while (message := consumer.receive(30_000)) is not None and message.text != "end":
        print(message.text, message.jms_redelivered, message.get_int_property("JMSXDeliveryCount"), flush=True)
        if role == "hold":
            sys.stdin.read()  # until the parent closes it, or kills this process
            break

connection.close()
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that looks as if the example had been installed into it from a wheel."""
    packages = tmp_path / "packages"
    metadata = packages / "folder_provider-1.0.dist-info"
    metadata.mkdir(parents=True)
    (packages / "folder_provider.py").write_text((GUIDE / "folder_provider.py").read_text("utf-8"), "utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: folder-provider\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[pyjms.providers]\nfolder = folder_provider:FolderProvider\n", "utf-8")
    return packages


@pytest.fixture
def start(tmp_path: Path, installed: Path) -> Iterator[Start]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    path = os.pathsep.join(map(str, [installed, ROOT, ROOT / "provider"]))
    processes: list[subprocess.Popen[str]] = []

    def run(role: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(program), role, f"folder://{tmp_path}/messages?poll_ms=5", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def output(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines that a process prints until it ends by itself."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.splitlines()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_processes_share_a_folder(start: Start) -> None:
    receivers = [start("receive") for _ in range(2)]
    senders = [start("send", *(f"{sender}-{number:02}" for number in range(30))) for sender in range(2)]
    for sender in senders:
        output(sender)
    output(start("send", "end", "end"))
    received = [output(receiver) for receiver in receivers]
    expected = [f"{sender}-{number:02} False 1" for sender in range(2) for number in range(30)]
    assert sorted(received[0] + received[1]) == expected
    for lines in received:
        for name in ("0-", "1-"):
            of_one = [line for line in lines if line.startswith(name)]
            assert of_one == sorted(of_one)  # each sender's messages are in order


@pytest.mark.realises("BOIL-PTP-3", "BOIL-HDR-6")
def test_what_a_killed_process_had_is_delivered_again(start: Start) -> None:
    output(start("send", "first", "second", "end"))
    holder = start("hold")
    assert first_line(holder) == "first False 1"
    assert output(start("receive")) == ["second False 1"]  # what a living process holds is left to it
    for count in (2, 3):
        holder.kill()
        holder.wait()
        assert holder.returncode == -signal.SIGKILL
        holder = start("hold")  # the next to connect brings it back
        assert first_line(holder) == f"first True {count}"
    output(holder)  # ends by itself, and without acknowledging
    output(start("send", "end"))
    assert output(start("receive")) == ["first True 4"]


def test_a_process_killed_while_it_sends_leaves_whole_messages_only(start: Start, tmp_path: Path) -> None:
    texts = [f"{number:04}" for number in range(3000)]
    sender = start("send", *texts)
    queue = tmp_path / "messages" / "queues" / "orders"
    while not queue.is_dir() or len(list(queue.iterdir())) < 20:
        assert sender.poll() is None
    sender.kill()
    sender.wait()
    output(start("send", "end"))
    received = output(start("receive"))
    assert len(received) >= 20
    assert received == [f"{text} False 1" for text in texts[: len(received)]]
    for place in ("aside", "claims"):
        assert list((tmp_path / "messages" / place).iterdir()) == []
