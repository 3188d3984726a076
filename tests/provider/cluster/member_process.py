"""A member of a cluster that does what its standard input says: see `MemberProcess`."""

from __future__ import annotations

import json
import sys

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ProviderSession
from pyjms_provider.cluster.placement import ShardPlace
from pyjms_provider.cluster.settings import ClusterSettings
from pyjms_provider.serving.cluster_links import start_member
from pyjms_provider.settings import BrokerSettings, StoreSettings
from tests.provider.helpers import RecordedEvents, make_envelope


def main(url: str, name: str, shards: str, lease_ms: str) -> None:
    settings = ClusterSettings(
        name="shop",
        member=name,
        virtual_host="shop",
        shards=int(shards),
        lease_ms=int(lease_ms),
        broker=BrokerSettings(store=StoreSettings(url=url)),
    )
    member = start_member(settings, SystemClock())
    answer("joined", None)
    sessions: dict[int, ProviderSession] = {}
    for line in sys.stdin:
        request, *rest = line.split()
        if request == "led":
            answer(request, sorted(member.brokers()))
        elif request == "incarnation":
            answer(request, member.incarnation)
        elif request == "open":
            connection = member.connect(ShardPlace(int(rest[0])), RecordedEvents())
            sessions[int(rest[0])] = connection.open_session(transacted=False)
            answer(request, None)
        elif request == "send":
            address = Address(AddressKind.QUEUE, rest[1])
            try:
                sessions[int(rest[0])].send(make_envelope(rest[2], destination=address, persistent=True))
            except ProviderError as error:
                answer(request, error.code)
            else:
                answer(request, "sent")
        elif request == "stop":
            member.stop()
            answer(request, None)


def answer(request: str, found: object) -> None:
    sys.stdout.write(f"{request} {json.dumps(found)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
