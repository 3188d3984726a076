"""Where the real brokers' programs are, as Debian packages them, and what to do when they are not there."""

from __future__ import annotations

import shutil
from pathlib import Path

MISSING = (
    "These tests speak to a real ActiveMQ and a real RabbitMQ, and {what} was not found. Install both with `make brokers` "
    "(Debian, Ubuntu); docs/how-to/work-on-pyjms.md says more."
)

_ACTIVEMQ_JARS = Path("/usr/share/activemq/lib")
_SLF4J = Path("/usr/share/java/slf4j-simple.jar")
_RABBITMQ = Path("/usr/lib/rabbitmq/lib")


class BrokerMissingError(Exception):
    """A broker is not installed; the text names the command that installs it."""


def activemq_class_path() -> str:
    """Return the class path of ActiveMQ's console, with a logger that writes what happens to standard error."""
    if shutil.which("java") is None:
        raise BrokerMissingError(MISSING.format(what="Java"))
    if not (_ACTIVEMQ_JARS / "activemq-stomp.jar").exists() or not _SLF4J.exists():
        raise BrokerMissingError(MISSING.format(what="ActiveMQ"))
    return f"{_ACTIVEMQ_JARS}/*:{_SLF4J}"


def rabbitmq_script() -> Path:
    """Return the script that runs RabbitMQ in the foreground."""
    found = sorted(_RABBITMQ.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    if not found or shutil.which("epmd") is None:
        raise BrokerMissingError(MISSING.format(what="RabbitMQ"))
    return found[-1]
