"""The real brokers of the tests start, are shared, and end with their last user."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.running import RunningBroker
from tests.brokers.sharing import shared_broker
from tests.needs.declaring import needing

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


def greeting(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(CONNECT)
        answer = b""
        while not answer.endswith(b"\n\n\0"):
            piece = connection.recv(4096)
            assert piece, answer
            answer += piece.rstrip(b"\n") if piece.endswith(b"\0\n") else piece
        return answer.decode()


def test_activemq_answers_on_its_stomp_port(activemq: dict[str, int]) -> None:
    assert "server:ActiveMQ/5" in greeting(activemq["stomp"])


def test_rabbitmq_answers_on_its_stomp_port(rabbitmq: dict[str, int]) -> None:
    assert "server:RabbitMQ/3" in greeting(rabbitmq["stomp"])


@pytest.mark.parametrize("kind", [needing("activemq_amqp"), needing("artemis"), needing("broker_j")])
def test_a_broker_of_maven_central_answers_on_its_amqp_port(kind: str, request: pytest.FixtureRequest) -> None:
    port = request.getfixturevalue(kind)["amqp"]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"AMQP\x03\x01\x00\x00")
        assert connection.recv(8) == b"AMQP\x03\x01\x00\x00"


def test_a_broker_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    class Broken(RunningBroker):
        ready = re.compile("never")
        ports = {}  # noqa: RUF012 - a broker that has none

        def command(self) -> tuple[list[str], dict[str, str]]:
            return ["sh", "-c", "echo no memory"], {}

    with pytest.raises(RuntimeError, match="no memory"):
        Broken(tmp_path).start()


def test_two_users_have_one_broker_and_it_ends_with_the_last(activemq: dict[str, int], tmp_path: Path) -> None:
    with shared_broker("activemq", tmp_path) as first:
        with shared_broker("activemq", tmp_path) as second:
            assert first == second
        greeting(first["stomp"])
    with pytest.raises(ConnectionRefusedError):
        greeting(first["stomp"])


def test_a_broker_ends_with_a_user_that_was_killed(activemq: dict[str, int], tmp_path: Path) -> None:
    program = (
        "import os, pathlib\n"
        "from tests.brokers.sharing import shared_broker\n"
        f"with shared_broker('activemq', pathlib.Path({str(tmp_path)!r})) as ports:\n"
        "    print(ports['stomp'], flush=True)\n"
        "    os.read(0, 1)\n"
    )
    user = subprocess.Popen(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert user.stdin is not None
    assert user.stdout is not None
    with user.stdin, user.stdout:
        port = int(user.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(CONNECT)
            assert connection.recv(4096).startswith(b"CONNECTED")
            os.kill(user.pid, signal.SIGKILL)
            user.wait()
            while connection.recv(4096):  # ends when the broker does
                pass
