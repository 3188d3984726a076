"""What the commands that read a destination say of it: a queue, or the durable subscription of a topic."""

from __future__ import annotations

from pyjms.spark.connecting import read_credentials
from pyjms.spark.errors import OptionError
from pyjms.spark.options import parse_options
from pyjms.spi.envelope import AddressKind

__all__ = ["source_options"]


def source_options(
    url: str,
    destination: str,
    group: str,
    *,
    client_id: str | None,
    subscription: str | None,
    credentials: str | None,
    looks: bool,
) -> dict[str, str]:
    """Return the source's options for what a person has given, besides the first three. Raises `OptionError`, before Spark starts.

    looks: nothing is to be changed, which cannot be done to a subscription.
    """
    given = {"clientId": client_id, "subscription": subscription, "credentials": credentials}
    options = {name: value for name, value in given.items() if value is not None}
    plain = {name: value for name, value in options.items() if name == "credentials"}
    address = parse_options({"url": url, "destination": destination, "readerGroup": group, **plain}).destination
    is_topic = address is not None and address.kind is AddressKind.TOPIC
    if not is_topic and len(options) > len(plain):
        raise OptionError(f"{destination}: a queue has no subscriptions: leave --subscription and --client-id out")
    if (client_id is None) != (subscription is None):
        raise OptionError(
            f"--{'client-id' if subscription is None else 'subscription'} goes with --{'subscription' if subscription is None else 'client-id'}: "
            "a durable subscription belongs to a client id"
        )
    if is_topic and subscription is None:
        raise OptionError(
            f"{destination}: a topic keeps no messages: give --subscription and --client-id, the durable subscription to read from"
        )
    if is_topic and looks:
        raise OptionError(f"{destination}: --dry-run looks at a queue; what a subscription has cannot be looked at")
    parse_options({"url": url, "destination": destination, **options})
    read_credentials(credentials)
    return options
