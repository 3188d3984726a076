"""What a served broker forgets with what has ended, and ends of itself when it could not be opened."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.security.audit import AuditLog
from pyjms_provider.serving import served_broker as user_watch
from pyjms_provider.serving.management_queues import WANTED, MessageService
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.transport.service import NetworkService
from tests.pyjms.runtime.helpers import eventually


def has_gone(reference: ref[Any]) -> bool:
    gc.collect()
    return reference() is None


def test_a_deleted_host_with_a_management_queue_is_not_kept_in_memory() -> None:
    with ServedBroker.open(context={WANTED: "true"}) as served:
        node = served.broker.create_child("virtual_host_node", {"name": "n", "type": "memory"})
        host = node.create_child("virtual_host", {"name": "h"})
        assert isinstance(host, VirtualHost)
        running, identity = ref(host.embedded), host.id
        assert identity in served._queues._services
        host.invoke("stop", {})
        eventually(lambda: has_gone(running), "who is stopped keeps no messages in memory")  # a thread may just look
        host.delete()
        assert identity not in served._queues._services
        deleted = ref(host)
        del host
        eventually(lambda: has_gone(deleted), "nobody keeps it")


def test_a_broker_that_could_not_be_opened_leaves_no_port_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    stop = NetworkService.stop

    def refuse(self: MessageService, *_: object) -> None:
        raise ResourceError("can't start new thread")

    def note(self: NetworkService) -> None:
        stop(self)
        closed.append(self)

    monkeypatch.setattr(MessageService, "__init__", refuse)
    monkeypatch.setattr(NetworkService, "stop", note)
    with pytest.raises(ResourceError):
        ServedBroker.open()
    assert len(closed) == 1


def test_a_user_is_shut_out_of_all_hosts_though_one_of_them_stops_at_that_moment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ServedBroker.open() as served:
        users = served.broker.create_child(
            "authentication_provider", {"name": "who", "type": "user-file", "path": f"{tmp_path}/users"}
        )
        bob = users.create_child("user", {"name": "bob", "password": "correct horse"})
        ended: list[str] = []

        class Stopped:
            @property
            def embedded(self) -> object:
                raise WrongStateError("it stops at this moment")

        class Running:
            @property
            def embedded(self) -> object:
                return self

            def clients(self) -> dict[str, object]:
                ended.append("asked")
                return {}

        monkeypatch.setattr(user_watch, "running_hosts", lambda _: [Stopped(), Running()])
        bob.delete()
        assert ended == ["asked"]


def test_the_audit_file_is_closed_last_so_that_no_log_in_of_the_last_moment_misses_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    for kind, method in ((NetworkService, "stop"), (AuditLog, "close")):
        monkeypatch.setattr(kind, method, _noting(getattr(kind, method), kind.__name__, ended))
    ServedBroker.open(audit_file=tmp_path / "audit.jsonl").close()
    assert ended == ["NetworkService", "AuditLog"]


def _noting(method: Callable[[Any], object], name: str, ended: list[str]) -> Callable[[Any], None]:
    def call(self: object) -> None:
        method(self)
        ended.append(name)

    return call
