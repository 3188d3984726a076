"""Routing with 100 rules against routing without: one target for every message, in one broker, with a store in SQLite and without.

Also what a decision costs by itself with 1 and with 100 rules.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent))
from measure import compare, make_message, report

from pyjms import ConnectionFactory, Session
from pyjms.forwarding import Plan, RouteSettings, RouteThread, Site, Target, Transfer, to_all
from pyjms.messages.freeze import freeze
from pyjms.routing.compiled import CompiledRules
from pyjms.routing.reading import read_rules
from pyjms.routing.rules import RuleSet
from pyjms.routing.runner import Router
from pyjms.spi import Address, AddressKind, MessageId, SystemClock
from pyjms_provider.broker import stop_all_brokers

MESSAGES = 1_500
DECISIONS = 20_000
TARGETS = 10
BODY = json.dumps({"customer": {"country": "C7"}, "text": "The quick brown fox jumps over the lazy dog. " * 20})


def rules(number: int) -> RuleSet:
    """Return rules of four kinds, as they come together in practice; one of 100 wants each message."""
    made = []
    for each in range(number):
        conditions: tuple[dict[str, object], ...] = (
            {"selector": f"s3 = 'CURRENCY{each}' AND i1 > 0"},
            {"type": f"type.{each}", "selector": "i1 = 1"},
            {"content": [{"json": "/customer/country", "equals": f"C{each}"}]},
            {"sender": f"shop-{each}", "selector": "b1 = TRUE"},
        )
        made.append({"name": f"rule {each}", "to": f"queue:routed.{each % TARGETS}", **conditions[each % 4]})
    return read_rules({"rule": [*made, {"name": "rest", "to": "queue:routed.0"}]})


class Bench:
    """One broker."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = ConnectionFactory(self.url).create_connection()
        self.connection.start()
        self.session = self.connection.create_session(True, Session.SESSION_TRANSACTED)

    def rate(self, plan: Plan, targets: list[Target]) -> float:
        """Return how many messages a second of the processor's time a plan moves: waits for the disk would hide what rules cost."""
        producer = self.session.create_producer(self.session.create_queue("unrouted"))
        for _ in range(MESSAGES):
            producer.send(make_message(self.session, BODY))
        self.session.commit()
        source = Target(site=Site(url=self.url), address=Address(AddressKind.QUEUE, "unrouted"))
        begin = process_time()
        transfer = Transfer(RouteSettings(name="bench", source=source), plan, lambda: targets, SystemClock())
        route = RouteThread(transfer)
        while route.statistics().forwarded < MESSAGES:
            assert not route.wait(0.01), route.statistics()
        rate = MESSAGES / (process_time() - begin)
        route.stop()
        self.drain()
        return rate

    def drain(self) -> None:
        """Take all that was routed; all of it must be there."""
        found = 0
        for number in range(TARGETS):
            with self.session.create_consumer(self.session.create_queue(f"routed.{number}")) as consumer:
                while consumer.receive_no_wait() is not None:
                    found += 1
        self.session.commit()
        assert found == MESSAGES, found

    def with_rules(self, router: Router) -> float:
        """Return the rate with rules."""
        return self.rate(router.plan, router.targets())

    def without(self) -> float:
        """Return the rate of a route with one target."""
        target = Target(site=Site(url=self.url), address=Address(AddressKind.QUEUE, "routed.0"))
        return self.rate(to_all([target]), [target])


def microseconds(ready: CompiledRules, session: Session) -> float:
    """Return what one decision costs."""
    message = make_message(session, BODY)
    envelope = freeze(message, Address(AddressKind.QUEUE, "q"), MessageId("ID:1"), 1, 0, 1, 4)  # type: ignore[arg-type]
    begin = perf_counter()
    for _ in range(DECISIONS):
        ready.decide(envelope)
    return (perf_counter() - begin) / DECISIONS * 1e6


def main() -> int:
    """Run and report."""
    with tempfile.TemporaryDirectory() as folder:
        store = quote(f"sqlite:///{folder}/messages.db")
        stored, in_memory = Bench(f"vm://bench-routing?store={store}"), Bench("vm://bench-routing-in-memory")
        good = [measure(stored, "routing, 100 rules / none"), measure(in_memory, "the same, in memory")]
        good.append(measure_decisions(in_memory))
        for bench in (stored, in_memory):
            bench.connection.close()
        stop_all_brokers()
    return 0 if all(good) else 1


def measure(bench: Bench, what: str) -> bool:
    """Measure with rules against without; return whether all is well."""
    router = Router(rules(100), lambda name, spec: Site(url=bench.url), SystemClock())
    result = compare(lambda: bench.with_rules(router), bench.without)
    detail = (
        f"{result.ours:,.0f} messages a second of processor time with 100 rules, {result.theirs:,.0f} without rules"
    )
    return report(what, result.ratio, least=0.5, detail=detail)


def measure_decisions(bench: Bench) -> bool:
    """Measure what a decision costs by itself; return whether all is well."""
    many, few = CompiledRules(rules(100)), CompiledRules(rules(4))
    cost = compare(lambda: microseconds(many, bench.session), lambda: microseconds(few, bench.session))
    detail = f"{cost.ours:.2f} µs a decision with 100 rules, {cost.theirs:.2f} µs with 4 of the same kinds"
    return report("decision, 100 rules / 4 rules", cost.ratio, most=3.0, detail=detail)


if __name__ == "__main__":
    sys.exit(main())
