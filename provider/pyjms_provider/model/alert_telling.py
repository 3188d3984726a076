"""How alerts are told: in the log, with stable codes, and as messages to the topic ``$alerts`` of the virtual host.

Messages are sent only while there is such a topic, which is as long as somebody has subscribed to it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import ProviderError
from pyjms.spi.words import counted
from pyjms_provider.watching.alerts import AlertKind, AlertNews, Telling

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.model.virtual_host import VirtualHost

__all__ = ["ALERTS", "AlertTeller"]

ALERTS: Final = "$alerts"
"""The topic."""
_MOST: Final = 100
_LIVES_MS: Final = 86_400_000
_UNITS: Final[Mapping[AlertKind, str]] = {
    AlertKind.MESSAGES: "messages",
    AlertKind.BYTES: "bytes",
    AlertKind.AGE: "ms",
    AlertKind.MESSAGE_BYTES: "bytes",
}
_WHAT: Final[Mapping[AlertKind, str]] = {
    AlertKind.MESSAGES: "it has {messages}",
    AlertKind.BYTES: "its messages take about {value} bytes",
    AlertKind.AGE: "its oldest message is {value} ms old",
    AlertKind.MESSAGE_BYTES: "it has a message of about {value} bytes",
}
_log = logging.getLogger(__name__)


class AlertTeller:
    """Of one virtual host. One thread; never waits for a client."""

    def __init__(self, host: VirtualHost, broker: EmbeddedBroker) -> None:
        self._host = host
        self._broker = broker

    def tell(self, news: Sequence[AlertNews]) -> None:
        """Tell all, the first of them one by one."""
        for each in news[:_MOST]:
            self._write(each)
            self._send(each)
        if len(news) > _MOST:
            _log.warning(
                "PYJMS-ALERT-4 %s: %d more queues have alerts, or have none any more",
                self._host.path,
                len(news) - _MOST,
            )

    def _write(self, news: AlertNews) -> None:
        alert = news.alert
        queue = "/".join((*self._host.names, alert.queue))
        what = _WHAT[alert.kind].format(value=alert.value, messages=counted(alert.value, "message"))
        if news.telling is Telling.RAISED:
            _log.warning("PYJMS-ALERT-1 queue %s: %s; the limit is %d", queue, what, alert.limit)
        elif news.telling is Telling.REPEATED:
            minutes = max(0, news.at_ms - alert.since_ms) // 60_000  # the clock may have been put back
            _log.warning(
                "PYJMS-ALERT-2 queue %s: still %s; the limit is %d, for %d min", queue, what, alert.limit, minutes
            )
        else:
            _log.info(
                "PYJMS-ALERT-3 queue %s: it is below the limit of %d %s again", queue, alert.limit, _words(alert.kind)
            )

    def _send(self, news: AlertNews) -> None:
        running = self._broker.virtual_host
        if not running.has_topic(ALERTS):
            return
        alert = news.alert
        body = {
            "queue": [*self._host.names, alert.queue],
            "kind": alert.kind.value,
            "event": news.telling.value,
            "value": alert.value,
            "limit": alert.limit,
            "unit": _UNITS[alert.kind],
            "since_ms": alert.since_ms,
            "at_ms": news.at_ms,
        }
        properties = {"pyjms_queue": alert.queue, "pyjms_alert": alert.kind.value, "pyjms_event": news.telling.value}
        envelope = Envelope(
            destination=Address(AddressKind.TOPIC, ALERTS),
            message_id=MessageId(f"ID:{uuid4()}"),
            timestamp_ms=news.at_ms,
            expiration_ms=news.at_ms + _LIVES_MS,
            delivery_mode=1,
            priority=4,
            correlation_id=None,
            reply_to=None,
            jms_type="pyjms.alert",
            properties=properties,
            body_kind=BodyKind.TEXT,
            body=json.dumps(body),
        )
        try:
            running.route(envelope, None, None)
        except ProviderError as error:
            _log.warning(
                "PYJMS-ALERT-5 %s: an alert could not be sent to %s: %s", self._host.path, ALERTS, error.reason
            )


def _words(kind: AlertKind) -> str:
    return {AlertKind.AGE: "ms", AlertKind.MESSAGE_BYTES: "bytes for a message"}.get(kind, _UNITS[kind])
