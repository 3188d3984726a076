"""Mistakes about TLS at a broker's http ports: they are no sign that the broker is down."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import RemoteDisconnected
from pathlib import Path
from typing import NamedTuple

import pytest

from pyjms.spi.trust import TrustError, explained, trusting
from pyjms_provider.serving.served_broker import ServedBroker
from tests.ports import free_port
from tests.provider.transport.certificates import Authority
from tests.pyjms.demo.command_line import Run
from tests.system.network.served import anonymous_broker, port_of


class Ports(NamedTuple):
    """One broker's."""

    http: str
    https: str
    authority: Path
    other: Path
    """The certificate of an authority that did not sign the broker's."""


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    folder = tmp_path_factory.mktemp("trust")
    authority, other = Authority(folder), Authority(folder, "other")
    identity = authority.sign("broker")
    with ServedBroker.open(name="trusted") as broker:
        top = broker.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        files = {"certificate_file": str(identity.certificate), "key_file": str(identity.key)}
        top.create_child("key_store", {"name": "keys", **files})
        node = top.create_child("virtual_host_node", {"name": "default", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"})
        chosen = {"type": "http", "port": 0, "authentication_providers": ["anonymous"], "access_control": "access"}
        top.create_child("port", {"name": "http", **chosen})
        top.create_child("port", {"name": "https", **chosen, "transports": ["tls"], "key_store": "keys"})
        found = {url.partition("://")[0]: url for url in broker.addresses()}
        yield Ports(found["http"], found["https"], authority.file, other.file)


@pytest.fixture(params=["manage", "story"])
def ask(request: pytest.FixtureRequest, run_pyjms: Run) -> Run:
    """Asks the broker at a URL, with options, by each of the commands that do."""

    def run(url: str, *options: str) -> tuple[int, str, str]:
        if request.param == "manage":
            return run_pyjms("manage", "list", url, "queue", *options)
        return run_pyjms("story", "ID:1", "--url", url, *options)

    return run


def test_who_is_trusted_is_spoken_to(run_pyjms: Run, ports: Ports) -> None:
    assert run_pyjms("manage", "list", ports.https, "queue", "--ca-file", str(ports.authority))[0] == 0


def test_a_port_with_tls_is_not_taken_for_a_broker_that_is_down(ask: Run, ports: Ports) -> None:
    place = ports.https.removeprefix("https://")
    code, _, err = ask(f"http://{place}")
    assert (code, err.count("\n")) == (2, 1), err
    assert f"http://{place} speaks TLS; write https://{place}, and say whom to trust: --ca-file FILE" in err


def test_an_authority_that_nobody_named_is_asked_for(ask: Run, ports: Ports) -> None:
    code, _, err = ask(ports.https)
    assert (code, err.count("\n")) == (2, 1), err
    assert f"the certificate of {ports.https} is not trusted" in err
    assert "--ca-file FILE" in err
    assert "see whether the broker runs" not in err


def test_the_wrong_authority_is_told(ask: Run, ports: Ports) -> None:
    code, _, err = ask(ports.https, "--ca-file", str(ports.other))
    assert (code, err.count("\n")) == (2, 1), err
    assert f"see whether --ca-file {ports.other} has that of who signed it" in err


def test_a_port_without_tls_is_told(ask: Run, ports: Ports) -> None:
    place = ports.http.removeprefix("http://")
    code, _, err = ask(f"https://{place}")
    assert (code, err.count("\n")) == (2, 1), err
    assert f"if it is a port without TLS, write http://{place}" in err


def test_a_file_that_is_not_there_is_named_with_its_option(ask: Run, tmp_path: Path) -> None:
    code, _, err = ask("https://127.0.0.1:1", "--ca-file", str(tmp_path / "nosuch"))
    assert (code, err.count("\n")) == (2, 1), err
    assert f"--ca-file {tmp_path / 'nosuch'}: No such file or directory" in err


def test_a_file_without_certificates_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate\n")
    with pytest.raises(TrustError, match=r"--ca-file .*text has no certificates"):
        trusting(tmp_path / "text")


def test_a_port_that_speaks_something_else_is_no_broker_that_is_down(ask: Run) -> None:
    with anonymous_broker() as served:
        place = f"127.0.0.1:{port_of(served)}"
        code, _, err = ask(f"http://{place}")
    assert (code, err.count("\n")) == (2, 1), err
    assert f"http://{place} answers, but not in HTTP; name the http port of the broker" in err


def test_a_port_that_hangs_up_for_another_reason_is_none_with_tls() -> None:
    port = free_port()
    assert explained(RemoteDisconnected("gone"), f"http://127.0.0.1:{port}", "127.0.0.1", port, None) is None
