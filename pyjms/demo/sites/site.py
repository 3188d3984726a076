"""One site, as a process: ``python -m pyjms.demo.sites.site NAME PORT`` in the folder of the site.

It serves a broker, announces it as ``listening URL``, reads one line of JSON with the URLs of all sites, and then
works: the servers of its companies, routes to the other site, and in Lisbon the engine of the workflow. It ends with
its standard input, so that it never outlives the demo; its memory holds no state of value, so it may be killed at any
moment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from threading import Thread

from pyjms import ConnectionFactory
from pyjms.demo.ending import INSTALL
from pyjms.demo.sites.chain import HERE, SITES, WORKS, open_books, work_of
from pyjms.flows import FlowEngine, StepServer
from pyjms.flows.engine import EVENTS
from pyjms.flows.store import open_store
from pyjms.forwarding import Guarantee, RouteSettings, RouteThread, Site, Target, Transfer, to_all
from pyjms.spi import Address, AddressKind, SystemClock

_COMMANDS = "pyjms.commands"


def main(name: str, port: str) -> None:
    """Serve until the standard input ends."""
    # By its entry point: the client's package must not import the broker's.
    broker, *_ = metadata.entry_points(group=_COMMANDS, name="broker")
    try:
        commands = broker.load()
    except ModuleNotFoundError as error:
        sys.exit(f"the package {error.name} is missing; install what a site needs with: {INSTALL}")
    # The broker has the main thread, since signal handlers can be set there alone; the work waits for the URLs in
    # another one.
    _start("site", lambda: _work(name))
    listen = f"stomp://127.0.0.1:{port}"
    run = ["run", "--listen", listen, "--anonymous", "--store", "sqlite:///messages.db", "--name", name.lower()]
    commands()(run)


def _work(name: str) -> None:
    urls: Mapping[str, str] = json.loads(sys.stdin.readline() or "{}")
    # Without a line the demo has died before it sent the URLs: then only the end is left.
    if urls:
        factory = ConnectionFactory(urls[name])
        books = open_books("books.db")
        for work in WORKS:
            if work.site == name:
                server = StepServer(factory, work.queue, work_of(work.name), database=books)
                _start(work.queue, server.serve)
            elif name == HERE:
                _forward(work.queue, urls[name], urls[work.site])
        if name == HERE:
            _start("engine", FlowEngine(factory, open_store("sqlite:///flows.db")).run)
        else:
            _forward(EVENTS, urls[name], urls[HERE])
    sys.stdin.read()
    os._exit(0)  # at once: the demo has ended, or was killed


def _forward(queue: str, here: str, there: str) -> None:
    """Forward a queue to the one with the same name at the other site."""
    source, target = (
        Target(site=Site(url=f"{url}?reconnect=no"), address=Address(AddressKind.QUEUE, queue)) for url in (here, there)
    )
    # Exactly once, as the books must add up: both sites have pyjms brokers, which detect duplicates.
    settings = RouteSettings(name=queue, source=source, require=Guarantee.ONCE_ONLY)
    RouteThread(Transfer(settings, to_all([target]), lambda: [target], SystemClock()))


def _start(name: str, work: Callable[[], object]) -> None:
    # Daemons: a site may end at any moment, and needs no orderly end.
    Thread(target=work, name=f"demo {name}", daemon=True).start()


if __name__ == "__main__":
    site, port = sys.argv[1:]
    assert site in SITES
    main(site, port)
