"""The chaotic run shows what a faulty provider does, and tells what its clients met with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyjms import JMSException
from pyjms.testing import Fault, Faults
from pyjms_provider.clients.vm import VmSession
from pyjms_tck.environment import Environment
from pyjms_tck.profile import Profile
from pyjms_tck.suite.chaos.run import Run

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope


class Short(Profile):
    chaos_ms = 300
    something_ms = 2_000
    nothing_ms = 5


def test_a_sound_provider_breaks_no_rule(jms_broker_url: str, tmp_path: Path) -> None:
    report = Run(Environment(jms_broker_url, Short()), tmp_path, None).judge()
    assert report.events > 100
    assert not report.violations, str(report)


def test_a_provider_that_drops_messages_is_found_out(
    jms_broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, sent = VmSession.send, []

    def forgetful(session: VmSession, envelope: Envelope) -> None:
        sent.append(envelope)
        if len(sent) % 20:
            send(session, envelope)

    monkeypatch.setattr(VmSession, "send", forgetful)
    report = Run(Environment(jms_broker_url, Short()), tmp_path, None).judge()
    assert "lost" in report.counts()


def test_what_a_client_meets_with_ends_the_run(jms_broker_url: str, tmp_path: Path) -> None:
    with Faults(jms_broker_url) as faults:
        run = Run(Environment(faults.url, Short()), tmp_path, None)
        faults.inject(Fault.SEND_REFUSED)
        with pytest.raises(JMSException, match="injected"):
            run.judge()


def test_restarts_are_part_of_the_run(jms_broker_url: str, tmp_path: Path) -> None:
    restarts: list[str] = []
    with Faults(jms_broker_url) as faults:

        def restart() -> None:
            faults.drop_connections()
            restarts.append("restart")

        report = Run(Environment(faults.url, Short()), tmp_path, restart).judge()
    assert restarts == ["restart", "restart"]
    assert not report.violations, str(report)
