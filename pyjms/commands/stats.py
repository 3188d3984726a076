"""``pyjms stats``."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from pyjms import Connection, Session
from pyjms.commands.connecting import (
    AsJson,
    BrokerUrl,
    CommandError,
    Login,
    PasswordFile,
    Selector,
    UserName,
    check_queue,
    errors_told,
    queue,
    queue_name,
    tables,
)
from pyjms.commands.moving import can_browse
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.session import JmsSession
from pyjms.spi.capability import Capability
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.terminal import FAILED, complain, escaped, listing, put_json
from pyjms.spi.words import span_text

EXAMPLES: Final = (
    "pyjms stats stomp://127.0.0.1:61613",
    "pyjms stats stomp://127.0.0.1:61613 orders invoices --json",
)


def stats(
    url: BrokerUrl,
    names: Annotated[
        list[str] | None, typer.Argument(help="Queues to count.", metavar="QUEUE", show_default=False)
    ] = None,
    selector: Selector = None,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a broker is and can do, and how many messages its queues hold.

    Messages are counted by looking at each, which takes a while in a long queue; `pyjms manage` asks a pyjms broker
    itself. Exit code: 0 done, 1 a queue is not there, or it broke off, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    with errors_told("stats"):
        for name in names or ():
            check_queue(name)
        with Login(user, password_file).connect(url) as connection:
            if names and not can_browse(connection):
                raise CommandError("this broker shows no messages, so they cannot be counted; leave the queues out")
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            connection.start()
            data = _broker(connection) | {"queues": [_queue(session, name, selector) for name in names or ()]}
    missing = [each["queue"] for each in data["queues"] if each["depth"] is None]
    if as_json:
        put_json(data)
    else:
        _show(data)
    for name in missing:
        complain("pyjms stats", f"there is no queue {name}; it is made when somebody sends to it or reads from it")
    if missing:
        raise typer.Exit(FAILED)


def _broker(connection: Connection) -> dict[str, Any]:
    known = connection.meta_data
    able = connection.capabilities if isinstance(connection, JmsConnection) else Capability.NONE
    return {
        "provider": known.jms_provider_name,
        "provider_version": known.provider_version,
        "jms_version": known.jms_version,
        "jmsx_property_names": sorted(map(str, known.jmsx_property_names)),
        "capabilities": [_word(each) for each in Capability if each in able],
        "lacks": [_word(each) for each in Capability if each not in able],
    }


def _word(capability: Capability) -> str:
    return (capability.name or "").lower()


def _address(name: str) -> Address:
    return Address(AddressKind.QUEUE, queue_name(name))


def _queue(session: Session, name: str, selector: str | None) -> dict[str, Any]:
    # A browser would create the queue that it looks for, at brokers that create queues on first use.
    if isinstance(session, JmsSession) and session.provider_session.has_destination(_address(name)) is False:
        return {"queue": queue_name(name), "depth": None, "redelivered": None, "oldest_ms": None}
    depth, oldest_ms, redelivered = 0, None, 0
    with session.create_browser(queue(session, name), selector) as browser:
        for message in browser:
            depth += 1
            redelivered += message.jms_redelivered
            sent_ms = message.jms_timestamp
            # 0 means that the producer switched timestamps off (JMS 1.1 §3.4.4).
            if sent_ms and (oldest_ms is None or sent_ms < oldest_ms):
                oldest_ms = sent_ms
    # Not below 0: the sender's clock may be ahead of this one.
    age_ms = None if oldest_ms is None else max(0, int(SystemClock().time_ms()) - oldest_ms)
    return {"queue": queue_name(name), "depth": depth, "redelivered": redelivered, "oldest_ms": age_ms}


def _show(data: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("[cyan]broker[/]", escaped(f"{data['provider']} {data['provider_version']}"))
    table.add_row("[cyan]JMS[/]", escaped(data["jms_version"]))
    table.add_row("[cyan]can do[/]", ", ".join(data["capabilities"]))
    table.add_row("[cyan]lacks[/]", ", ".join(data["lacks"]) or "nothing")
    table.add_row("[cyan]JMSX properties[/]", escaped(", ".join(data["jmsx_property_names"])))
    tables().print(table)
    if any(each["depth"] is not None for each in data["queues"]):
        queues = listing("queue", "messages", "redelivered", "oldest")
        for each in data["queues"]:
            if each["depth"] is None:
                continue
            age = "" if each["oldest_ms"] is None else span_text(each["oldest_ms"])
            queues.add_row(escaped(each["queue"]), f"{each['depth']:,}", f"{each['redelivered']:,}", age)
        tables().print()
        tables().print(queues)
