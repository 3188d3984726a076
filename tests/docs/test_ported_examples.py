"""The Java programs of docs/examples run, on a fresh broker each, and print what they would print in Java."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pyjms.testing import Faults
from tests.provider.commands.served import PATIENCE_S

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

POINT_TO_POINT = """\
Sent: 3 espressos
Sent: 1 cappuccino
Sent: 2 teas
Received: 3 espressos
Received: 1 cappuccino
Received: 2 teas
No more orders
"""

MESSAGE_LISTENER = """\
ACME 12.50
INIT 7.25
ACME 12.75
All quotes have arrived
"""

DURABLE_SUBSCRIBER = """\
alice: Bridge opened
bob: Bridge opened
Both go home
Both come back
alice: Storm expected
alice: Storm over
alice: Sunny weekend
bob: Sunny weekend
"""

REQUEST_REPLY = """\
ball-point pen, blue: 1200 $
quill: no quotation
"""

QUEUE_REQUESTOR = """\
hello -> HELLO
world -> WORLD
"""

TRANSACTED_BATCH = """\
Order desk, delivery 1
Order lamp, delivery 1
Order chair, delivery 1
Batch rolled back: no chair
Shipments so far: None
Order desk again, delivery 2
Order lamp again, delivery 2
Order chair again, delivery 2
Batch committed
Received: shipment of desk
Received: shipment of lamp
Received: shipment of chair
"""

QUEUE_BROWSER = """\
Browsed: Ticket 1, severity 2
Browsed: Ticket 2, severity 5
Browsed: Ticket 3, severity 1
Severe: 2
Received: Ticket 1
Received: Ticket 2
Received: Ticket 3
"""

MESSAGE_SELECTORS = """\
JMSType = 'WeatherReport' AND city LIKE 'O%' AND wind > 20: ['Omaha']
degrees BETWEEN 15 AND 25 AND city NOT IN ('Lima', 'Rome'): ['Cairo']
wind IS NULL: ['Rome']
degrees * 1.8 + 32 < 32 OR NOT (wind <> 0): ['Oslo', 'Lima']
degrees >: not a selector
"""

EXCEPTION_LISTENER = """\
Connected
Alarm: smoke in the cellar
Connection lost
The old connection is of no use
Connected
Alarm: water in the cellar
"""

JNDI_LOOKUP = """\
Queue: orders
Topic: prices
Received: one lamp
jms/NoSuchQueue: not bound
"""

QUEUE_AND_TOPIC_DOMAINS = """\
orders: one lamp
A QueueSession has no topics
prices: lamp: 25
noLocal: None
one chair, chair: 40
"""

MESSAGE_TYPES = """\
A new BytesMessage is write-only
Text: <order id='7'/>
A received message is read-only
Map: 3 lamp
An int is not a short
Stream: lamp 3
The stream is at its end
Bytes: lämp 255
Object: 2003-03-16
"""

CLIENT_ACKNOWLEDGE = """\
Acknowledged: job 1
job 2, redelivered: False
job 3, redelivered: False
Recover
job 2, redelivered: True
job 3, redelivered: True
Left: None
"""


def example(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"docs_examples_{name}", EXAMPLES / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


PROGRAMS = {
    "point_to_point": POINT_TO_POINT,
    "message_listener": MESSAGE_LISTENER,
    "durable_subscriber": DURABLE_SUBSCRIBER,
    "request_reply": REQUEST_REPLY,
    "queue_requestor": QUEUE_REQUESTOR,
    "transacted_batch": TRANSACTED_BATCH,
    "queue_browser": QUEUE_BROWSER,
    "message_selectors": MESSAGE_SELECTORS,
    "jndi_lookup": JNDI_LOOKUP,
    "queue_and_topic_domains": QUEUE_AND_TOPIC_DOMAINS,
    "message_types": MESSAGE_TYPES,
    "client_acknowledge": CLIENT_ACKNOWLEDGE,
}
SHOWS = {
    "point_to_point": pytest.mark.realises("BOIL-ORD-1", "BOIL-PTP-1"),
    "durable_subscriber": pytest.mark.realises("BOIL-PUB-2", "BOIL-PUB-3", "BOIL-PUB-4"),
    "queue_requestor": pytest.mark.realises("BOIL-PTP-5"),
    "transacted_batch": pytest.mark.realises("BOIL-TX-1", "BOIL-TX-2", "BOIL-TX-3", "BOIL-HDR-7"),
    "queue_browser": pytest.mark.realises("BOIL-PTP-4"),
    "message_selectors": pytest.mark.realises("BOIL-PROP-14"),
    "jndi_lookup": pytest.mark.realises("BOIL-SETUP-1"),
    "queue_and_topic_domains": pytest.mark.realises("BOIL-DOM-2", "BOIL-PUB-9"),
    "message_types": pytest.mark.realises("BOIL-BODY-1", "BOIL-MSG-4", "BOIL-MSG-5"),
    "client_acknowledge": pytest.mark.realises("BOIL-ACK-3", "BOIL-ACK-5", "BOIL-ACK-6"),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SHOWS.get(name, ())) for name in PROGRAMS])
def test_a_ported_program_prints_what_it_prints_in_java(
    name: str, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROKER_URL", "set by the example, and forgotten after the test")
    example(name).main(jms_broker_url)
    assert capsys.readouterr().out == PROGRAMS[name]


@pytest.mark.realises("BOIL-CONN-17")
def test_an_exception_listener_hears_of_a_lost_connection(
    jms_faults: Faults, capsys: pytest.CaptureFixture[str]
) -> None:
    example("exception_listener").main(jms_faults.url, jms_faults.drop_connections)
    assert capsys.readouterr().out == EXCEPTION_LISTENER


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PROGRAMS, "exception_listener", "listening_service"}


def test_a_program_that_only_listens_does_so_until_a_signal_and_closes() -> None:
    command = [sys.executable, str(EXAMPLES / "listening_service.py"), "vm://orders"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            assert service.stdout.readline() == "Waiting for orders\n"
            assert service.poll() is None
            try:
                service.send_signal(signal.SIGTERM)
                out, err = service.communicate(timeout=PATIENCE_S)
            except (
                subprocess.TimeoutExpired
            ):  # it came just before the main thread began to wait, where no signal wakes it
                service.send_signal(signal.SIGTERM)
                out, err = service.communicate(timeout=PATIENCE_S)
        finally:
            service.kill()
    assert (out, err, service.returncode) == ("No more orders\n", "", 0)
