"""Write the published conformance reports: `make conformance`.

For each provider of `PROVIDERS`, ``docs/conformance/NAME.json`` is what later runs are compared with, and NAME.html what
people look at; ``index.md`` lists them. ``--pictures`` also photographs the report of a faulty provider for the guide.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from urllib.parse import quote

from rich.console import Console
from selenium import webdriver
from selenium.webdriver.common.by import By

from pyjms.spi.clock import SystemClock
from pyjms_tck.report.html import to_html
from pyjms_tck.results import Outcome, Report
from pyjms_tck.run import SUITE_TARGET, judge_provider
from pyjms_tck.runner.pool import Task
from pyjms_tck.runner.progress import LiveProgress
from tests.brokers.running import KINDS
from tests.brokers.sharing import shared_broker
from tests.provider.postgresql import PostgresqlServer
from tools.served_broker import served_broker, served_cluster

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "conformance"
AUTHORS = ROOT / "docs" / "provider-authors"
PICTURES = ROOT / "docs" / "how-to" / "pictures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A provider whose report is published."""

    name: str
    about: str
    url: str
    """``{folder}`` stands for an empty folder, ``{postgresql}`` for an empty store in a PostgreSQL server of its own;
    ``{activemq}`` and ``{rabbitmq}`` for the STOMP port of such a broker, ``{artemis}``, ``{activemq_amqp}`` and ``{broker_j}`` for its AMQP
    port, ``{pyjms}`` for the STOMP port of our own, in a process of its own, which keeps messages in memory; ``{stored}``: in SQLite;
    ``{stored_amqp}``: its AMQP port; ``{cluster}`` for the STOMP port of a member of a cluster that leads nothing."""
    profile: Path


PROVIDERS = (
    Judged(
        name="vm-memory",
        about="the embedded broker, messages in memory",
        url="vm://conformance",
        profile=FOLDER / "memory_profile.py",
    ),
    Judged(
        name="vm-sqlite",
        about="the embedded broker with a store in a file of SQLite",
        url="vm://conformance?store=sqlite:///{folder}/conformance.db",
        profile=FOLDER / "stored_profile.py",
    ),
    Judged(
        name="vm-postgresql",
        about="the embedded broker with a store in PostgreSQL",
        url="vm://conformance?store={postgresql}",
        profile=FOLDER / "stored_profile.py",
    ),
    Judged(
        name="folder",
        about="the [example](../provider-authors/example.md) of the authors' guide",
        url="folder://{folder}/messages?poll_ms=5",
        profile=AUTHORS / "folder_profile.py",
    ),
    Judged(
        name="stomp-sqlite",
        about="our broker as a server, [over STOMP](../how-to/stomp.md), with a store in a file of SQLite",
        url="stomp://127.0.0.1:{stored}?reconnect_delay_max_ms=200",  # a restart takes seconds on a busy machine, and no more
        profile=FOLDER / "stored_stomp_profile.py",
    ),
    Judged(
        name="amqp-sqlite",
        about="our broker as a server, [over AMQP 1.0](../how-to/amqp.md), with a store in a file of SQLite",
        url="amqp://127.0.0.1:{stored_amqp}?reconnect_delay_max_ms=200",
        profile=FOLDER / "stored_amqp_profile.py",
    ),
    Judged(
        name="cluster",
        about="two of our brokers, members of [a cluster](../how-to/cluster.md), over STOMP at the one that leads no shard",
        url="stomp://127.0.0.1:{cluster}?reconnect_delay_max_ms=200",
        profile=FOLDER / "cluster_profile.py",
    ),
    Judged(
        name="cluster-amqp",
        about="the same members, over AMQP 1.0 at the one that leads no shard",
        url="amqp://127.0.0.1:{cluster_amqp}?reconnect_delay_max_ms=200",
        profile=FOLDER / "cluster_profile.py",
    ),
    Judged(
        name="artemis",
        about="ActiveMQ Artemis 2.40, [over AMQP 1.0](../how-to/amqp.md)",
        url="amqp://127.0.0.1:{artemis}",
        profile=FOLDER / "artemis_amqp_profile.py",
    ),
    Judged(
        name="activemq_amqp",
        about="ActiveMQ Classic 5.18, [over AMQP 1.0](../how-to/amqp.md)",
        url="amqp://127.0.0.1:{activemq_amqp}?delivery_delay=yes",
        profile=FOLDER / "activemq_amqp_profile.py",
    ),
    Judged(
        name="broker_j",
        about="Qpid Broker-J 9.2, [over AMQP 1.0](../how-to/amqp.md)",
        url="amqp://127.0.0.1:{broker_j}?delivery_delay=yes",
        profile=FOLDER / "broker_j_amqp_profile.py",
    ),
    Judged(
        name="activemq",
        about="ActiveMQ Classic 5.17, [over STOMP](../how-to/stomp.md)",
        url="stomp://127.0.0.1:{activemq}?delivery_delay=yes",
        profile=FOLDER / "activemq_profile.py",
    ),
    Judged(
        name="rabbitmq",
        about="RabbitMQ 3.10, [over STOMP](../how-to/stomp.md)",
        url="stomp://127.0.0.1:{rabbitmq}",
        profile=FOLDER / "rabbitmq_profile.py",
    ),
)
LIMIT_S = 180.0
"""How long one test may take: what takes 6 s by itself has taken more than the 30 s of the profiles beside the rest of our own test suite."""
_STORE = ("--store", "sqlite:///conformance.db")
SERVED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pyjms": ("stomp", ()),
    "stored": ("stomp", _STORE),
    "stored_amqp": ("amqp", _STORE),
}
CLUSTERS: Mapping[str, str] = {"cluster": "stomp", "cluster_amqp": "amqp"}
"""The protocols of the ports of members, by their names in the URLs."""
NO_PLACES: Mapping[str, object] = {}
FAULTY = Judged(
    name="faulty",
    about="the example with a fault",
    url="folder://{folder}/messages?poll_ms=5",
    profile=AUTHORS / "faulty_profile.py",
)


def judge(judged: Judged, select: tuple[str, ...] = (), places: Mapping[str, object] = NO_PLACES) -> Report:
    """Run the suite, or the selected part of it, on a provider, beside which runs what its URL asks for.

    Args:
        judged: The provider.
        select: The sections; none are all.
        places: What runs already, by the names in the URL: a port of a broker, the store in PostgreSQL.
    """
    with ExitStack() as made, LiveProgress(Console(stderr=True)) as progress:
        folder = made.enter_context(tempfile.TemporaryDirectory())
        found: dict[str, object] = {"folder": folder, **places}
        for _, name, _, _ in Formatter().parse(judged.url):
            if name is not None and name not in found:
                found[name] = _start(name, Path(folder), made)
        task = Task(
            url=judged.url.format(**found),
            profile=str(judged.profile),
            select=select,
            target=SUITE_TARGET,
            limit_s=LIMIT_S,
        )
        return asyncio.run(judge_provider(task, progress))


def _start(name: str, folder: Path, made: ExitStack) -> object:
    """Start what a URL names, until `made` ends; return what stands in the URL for it."""
    if name in SERVED:
        scheme, options = SERVED[name]
        return made.enter_context(served_broker(folder, *options, scheme=scheme))
    if name in KINDS:
        return port_of(made.enter_context(shared_broker(name, folder)))
    server = PostgresqlServer()
    made.callback(server.remove)
    if name in CLUSTERS:
        return made.enter_context(served_cluster(folder, server.make_store(), scheme=CLUSTERS[name]))
    return store_in(server)


def port_of(ports: Mapping[str, int]) -> int:
    """Return the port at which a real broker is judged."""
    return ports["stomp"] if "stomp" in ports else ports["amqp"]


def store_in(server: PostgresqlServer) -> str:
    """Make an empty store, and return its URL as it stands in the URL of a broker."""
    return quote(server.make_store(), safe="")


HEAD = """# Conformance reports

These are the results of the [conformance suite](../how-to/conformance.md) for the providers of this repository, requirement by requirement. `make
conformance` makes the reports; the test suite fails when one of them gets worse. The [kill matrix](kill-matrix.md) shows which tests of the suite
detect which fault.

The broker is restarted in these runs: {download}`memory_profile.py` and {download}`stored_profile.py` do so. A store serves one broker, so the suite
runs in one process with a store, and in two in memory. Measured on two virtual cores, the whole suite takes 25 s in memory, 22 s on SQLite, 34 s on
PostgreSQL and 23 s for the example; twice as long beside as much other work.

JMS 1.1 requires PERSISTENT messages to survive a restart of the broker, so the broker without a store conforms in part.

The pyjms broker as a server runs in a process of its own, with one user, and is restarted by its profile: {download}`stomp_profile.py`,
{download}`stored_stomp_profile.py`, {download}`stored_amqp_profile.py`. Two of them are members of a cluster in another run: the client's leads
none of the shards, so each message passes a link, and a restart is one of both: {download}`cluster_profile.py`.

ActiveMQ and RabbitMQ are real ones, as Debian packages them, each started for its run, which takes 45 s and 54 s in four processes:
{download}`activemq_profile.py`, {download}`rabbitmq_profile.py`. Artemis, ActiveMQ Classic with AMQP and Broker-J come from Maven Central:
{download}`artemis_amqp_profile.py`, {download}`activemq_amqp_profile.py`, {download}`broker_j_amqp_profile.py`. ActiveMQ Classic and Broker-J are
[configured to delay messages](../how-to/amqp.md#delivery-delays). Their reports list the unsupported
features, and their profiles say why a broker fails a test; [AMQP and the brokers](../how-to/amqp.md) and [STOMP and the brokers](../how-to/stomp.md)
compare the brokers.

"""


def index(reports: dict[str, Report]) -> str:
    """Return the page that lists the reports, by the names of their providers."""
    rows = [
        "| provider | verdict | " + " | ".join(Outcome) + " | report |",
        "|---|---|" + "---|" * len(Outcome) + "---|",
    ]
    for judged in PROVIDERS:
        report = reports[judged.name]
        counts = " | ".join(str(report.counts[outcome]) for outcome in Outcome)
        links = f"[page]({judged.name}.html), [JSON]({judged.name}.json)"
        rows.append(f"| {judged.about} | {report.verdict} | {counts} | {links} |")
    return HEAD + "\n".join(rows) + "\n"


def photograph(report: Report) -> None:
    """Write the pictures of the guide: the top of the page, and the first requirement that failed."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--window-size=1100,860"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    PICTURES.mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "report.html")
            page.write_text(to_html(report), encoding="utf-8")
            browser.get(page.as_uri())
            browser.save_screenshot(str(PICTURES / "conformance-report.png"))
            browser.find_element(By.CSS_SELECTOR, ".r.failed").screenshot(str(PICTURES / "conformance-failure.png"))
    finally:
        browser.quit()


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [judged.name for judged in PROVIDERS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only the reports of these: {', '.join(names)}")
    parser.add_argument("--pictures", action="store_true", help="the pictures of the guide instead, with Chromium")
    arguments = parser.parse_args()
    if arguments.pictures:
        photograph(judge(FAULTY))
        return
    if unknown := set(arguments.names) - set(names):
        parser.error(f"no such provider: {', '.join(sorted(unknown))}")
    FOLDER.mkdir(exist_ok=True)
    clock, reports = SystemClock(), {}
    for judged in PROVIDERS:
        if arguments.names and judged.name not in arguments.names:
            reports[judged.name] = Report.from_json((FOLDER / f"{judged.name}.json").read_text("utf-8"))
            continue
        began_ms = clock.monotonic_ms()
        report = reports[judged.name] = judge(judged)
        (FOLDER / f"{judged.name}.json").write_text(report.to_json(), encoding="utf-8")
        (FOLDER / f"{judged.name}.html").write_text(to_html(report), encoding="utf-8")
        print(f"{judged.name}: {report.verdict}; {(clock.monotonic_ms() - began_ms) / 1000:.0f} s")
    (FOLDER / "index.md").write_text(index(reports), encoding="utf-8")


if __name__ == "__main__":
    main()
