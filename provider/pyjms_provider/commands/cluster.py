"""``pyjms broker cluster``: the members of a cluster, its shards, and which member leads which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from pyjms.spi.terminal import escaped, listing, put_json
from pyjms.spi.words import counted
from pyjms_provider.commands.manage import CaFile, Url, User, open_client
from pyjms_provider.commands.rest_client import RestClient
from pyjms_provider.commands.telling import AsJson, PasswordFile, show, stop

_HOST: Final = "virtual_host"
_SECOND_MS: Final = 1000


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
    if as_json:
        put_json(found)
    else:
        _show(found)


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
    show(f"cluster [bold]{escaped(status['name'])}[/] of the virtual host {escaped(status['virtual_host'])}")
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
    show(f"{counted(status['undecided'], 'transaction')} over several shards not yet applied by all of them")


def _state(member: Mapping[str, Any]) -> str:
    if not member["is_alive"]:
        return "[red]dead[/]"
    return "[yellow]leaving[/]" if member["is_leaving"] else "[green]alive[/]"


def _time(milliseconds: int | None) -> str:
    return (
        "" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / _SECOND_MS, UTC):%Y-%m-%d %H:%M:%S}Z"
    )
