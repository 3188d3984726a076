"""``pyjms broker cluster``: the members of a cluster, its shards, and which member leads which; ``pyjms broker adopt``: a cluster of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from pyjms.spi.terminal import escaped, listing, put_json
from pyjms.spi.words import counted
from pyjms_provider.cluster.placement import SHARDS_DEFAULT, SHARDS_MAX, Placement
from pyjms_provider.cluster.settings import NAME
from pyjms_provider.commands.manage import CaFile, Url, User, open_client
from pyjms_provider.commands.rest_client import RefusedError, RestClient
from pyjms_provider.commands.telling import AsJson, PasswordFile, errors_told, show, stop

_TOTALS: Final = ("connections", "queues", "consumers", "waiting", "held", "arrived", "departed")
_HOST: Final = "virtual_host"
_SECOND_MS: Final = 1000
_PLACED_MAX: Final = 50
"""So many placed destinations are shown: a cluster that was made of another broker's store may have thousands."""


def show_cluster(
    url: Url,
    host: Annotated[
        str | None,
        typer.Option(
            help="The virtual host, as NODE/NAME, if the broker has several of clusters.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
    user: User = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the members of a cluster, its shards with their leaders, and undecided transactions; any member can be asked."""
    with open_client(url, user, password_file, ca_file) as client:
        names = _clustered(client) if host is None else host.split("/")
        operation = client.category(_HOST).operations["cluster_status"]
        found = client.call(_HOST, names, operation, {}, lambda *_: None)
        # A shard without a leader has no numbers, and the operator wants to see just that.
        with suppress(RefusedError):
            counting = client.category(_HOST).operations["cluster_totals"]
            found["totals"] = client.call(_HOST, names, counting, {}, lambda *_: None)
    if as_json:
        put_json(found)
    else:
        _show(found)


def adopt(
    store: Annotated[
        str,
        typer.Argument(help="The URL of the store of a broker that has stopped.", metavar="STORE", show_default=False),
    ],
    database: Annotated[
        str,
        typer.Argument(
            help="The URL of the cluster's database, as postgresql+psycopg://USER@HOST/DATABASE.",
            metavar="DATABASE",
            show_default=False,
        ),
    ],
    cluster: Annotated[
        str, typer.Option(help="The name of the cluster, which must not exist.", metavar="NAME", show_default=False)
    ],
    name: Annotated[
        str, typer.Option(help="The name of the virtual host that it serves.", metavar="NAME", show_default=False)
    ],
    shards: Annotated[
        int, typer.Option(help="The number of its shards.", metavar="NUMBER", min=1, max=SHARDS_MAX)
    ] = SHARDS_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a cluster of a single broker's store: all that the store has is copied into one shard.

    No broker may work with the store. It stays as it is, but that a store of an older version is migrated as by a broker that opens it.
    """
    with errors_told():
        from pyjms.spi.clock import SystemClock
        from pyjms_provider.stores.sql.adoption import adopt_store

        if not NAME.fullmatch(cluster):
            stop(
                f"{cluster!r} is no name of a cluster: write up to 40 of the characters a-z, 0-9 and _, a letter first"
            )
        placement = Placement(shards)
        done = adopt_store(
            store,
            database,
            SystemClock(),
            cluster=cluster,
            virtual_host=name,
            shards=shards,
            shard_of_registered=placement.shard_of_registered,
        )
    if as_json:
        put_json(asdict(done))
        return
    parts = (
        counted(done.messages, "message"),
        counted(done.destinations, "queue or topic", "queues and topics"),
        counted(done.subscriptions, "durable subscription"),
        counted(done.branches, "prepared branch", "prepared branches"),
        counted(done.clients, "registered client"),
    )
    show(f"[green]made[/] the cluster {escaped(cluster)}, whose shard {done.shard} has {', '.join(parts)}")
    show("start its members now, and the old broker never again: it still has the same messages")


def _clustered(client: RestClient) -> Sequence[str]:
    """Return the address of the only virtual host that is served by a cluster."""
    items = client.page(_HOST, (), 0, 0, fields="names,cluster")["items"]
    found: list[Sequence[str]] = [each["names"] for each in items if each.get("cluster")]
    if not found:
        stop(
            "no virtual host of this broker is served by a cluster; its attribute cluster names one (pyjms broker tree virtual_host)"
        )
    if len(found) > 1:
        known = ", ".join("/".join(each) for each in found)
        stop(
            f"this broker has {counted(len(found), 'virtual host')} of clusters; say which: --host ADDRESS, of {known}"
        )
    return found[0]


def _show(status: Mapping[str, Any]) -> None:
    format_ = status["format"]
    show(
        f"cluster [bold]{escaped(status['name'])}[/] of the virtual host {escaped(status['virtual_host'])}, format {format_}"
    )
    if status["trouble"] is not None:
        show(f"[red]this member serves nothing, and so knows of none:[/] {escaped(status['trouble'])}")
    members = listing(
        "member", "state", "address", "version", "joined", "heartbeat", "leads", whole={"member", "state"}
    )
    for each in status["members"]:
        members.add_row(
            f"[cyan]{escaped(each['name'])}[/]",
            _state(each),
            escaped(each["address"]),
            escaped(each["version"]),
            _time(each["joined_ms"]),
            f"{each['heartbeat_age_ms'] / _SECOND_MS:.1f} s ago",
            ", ".join(map(str, each["shards"])) or "none",
        )
    show(members)
    for each in status["members"]:
        if each["format"] > format_:
            show(
                f"[yellow]{escaped(each['name'])}[/] knows format {each['format']}, and leads nothing until all members know that"
            )
    show("")
    if "totals" in status:
        totals = listing("member", *_TOTALS, whole={"member"})
        for each in (*status["totals"]["members"], status["totals"]["total"]):
            name = "[bold]all together[/]" if each["member"] is None else f"[cyan]{escaped(each['member'])}[/]"
            totals.add_row(name, *(f"{each[field]:,}" for field in _TOTALS))
        show(totals)
    else:
        show("[red]how many messages there are is not known: a shard has no leader that answers[/]")
    show("")
    shards = listing("shard", "leader", "since", "leaders so far", whole={"shard"})
    for each in status["shards"]:
        leader = "[red]none[/]" if each["leader"] is None else escaped(each["leader"])
        shards.add_row(
            str(each["number"]),
            f"{leader} (reads its store)" if each["restoring"] else leader,
            _time(each["since_ms"]),
            str(each["terms"]),
        )
    show(shards)
    show("")
    if status["placed"]:
        placed = listing("placed", "in shards", whole={"placed"})
        for each in status["placed"][:_PLACED_MAX]:
            placed.add_row(escaped(f"{each['kind']}://{each['name']}"), ", ".join(map(str, each["shards"])))
        show(placed)
        if len(status["placed"]) > _PLACED_MAX:
            show(f"and {len(status['placed']) - _PLACED_MAX} more; --json has all")
        show("")
    show(f"{counted(status['undecided'], 'transaction')} over several shards not yet applied by all of them")


def _state(member: Mapping[str, Any]) -> str:
    if not member["is_alive"]:
        return "[red]dead[/]"
    return "[yellow]leaving[/]" if member["is_leaving"] else "[green]alive[/]"


def _time(milliseconds: int | None) -> str:
    return (
        "" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / _SECOND_MS, UTC):%Y-%m-%d %H:%M:%S}Z"
    )
