"""The broker over STOMP against RabbitMQ and ActiveMQ, with the clients that Python programs have for them.

``bench_network.py [ROUNDS [SCALE [BACKLOG]]]``: all sides take turns, so many rounds (5), and their medians are compared. SCALE (1)
multiplies the numbers of messages, BACKLOG (100,000) is how many wait in the last workload.

Every confirmed send and every commit is forced to the disk on all sides; no side forces acknowledgements.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))
from measure import report
from network import BATCH, Backlog, Figures, Peer, backlog, confirmed, pipelined, round_trips, transacted
from network_brokers import TunedActiveMq, TunedRabbitMq, our_broker, process_of
from network_ceilings import forwarding
from network_clients import AmqpClient, JmsClient, PikaClient, StompClient, declare_queue

OURS: Final = "pyjms"
ACTIVEMQ: Final = "ActiveMQ + stomp.py"
RABBITMQ: Final = "RabbitMQ + py-amqp"
_numbers = count(1)


def _name() -> str:
    return f"bench-{next(_numbers)}"


@contextmanager
def peers() -> Iterator[dict[str, Peer]]:
    """Start all brokers, and give the clients of each."""
    with tempfile.TemporaryDirectory(prefix="pyjms-bench-") as directory:
        ours_in = Path(directory, "ours")
        ours_in.mkdir()
        activemq, rabbitmq = TunedActiveMq(Path(directory, "activemq")), TunedRabbitMq(Path(directory, "rabbitmq"))
        try:
            activemq.start()
            rabbitmq.start()
            with our_broker(ours_in) as (port, process):
                amqp_port = rabbitmq.ports["amqp"]
                rabbit, active = process_of(rabbitmq), process_of(activemq)
                declared = lambda: declare_queue(amqp_port, _name())  # noqa: E731
                clients: tuple[tuple[str, Callable[[], Any], Any, Callable[[], str]], ...] = (
                    (OURS, partial(JmsClient, port, "&confirm_acknowledge=no"), process, _name),
                    (RABBITMQ, partial(AmqpClient, amqp_port), rabbit, declared),
                    ("RabbitMQ + pika", partial(PikaClient, amqp_port), rabbit, declared),
                    (ACTIVEMQ, partial(StompClient, activemq.ports["stomp"], "activemq"), active, _name),
                    ("RabbitMQ + stomp.py", partial(StompClient, rabbitmq.ports["stomp"], "rabbitmq"), rabbit, _name),
                )
                yield {
                    name: Peer(name=name, connect=connect, process=process, make_queue=make_queue)
                    for name, connect, process, make_queue in clients
                }
        finally:
            rabbitmq.kill()
            activemq.kill()


def in_turn(all_of_them: dict[str, Peer], rounds: int, measure: Callable[[Peer], Any]) -> dict[str, list[Any]]:
    """Have each side measured once a round; return what each has got."""
    found: dict[str, list[Any]] = {name: [] for name in all_of_them}
    for _ in range(rounds):
        for name, peer in all_of_them.items():
            found[name].append(measure(peer))
    return found


def compare_rates(what: str, least: float, found: dict[str, list[Figures]]) -> tuple[bool, dict[str, Figures]]:
    """Report our rate against that of the better peer, and what a message costs everybody."""
    middle = {
        name: Figures(
            rate=statistics.median(each.rate for each in figures),
            broker_us=statistics.median(each.broker_us for each in figures),
            client_us=statistics.median(each.client_us for each in figures),
        )
        for name, figures in found.items()
    }
    best = max((name for name in middle if name != OURS), key=lambda name: middle[name].rate)
    good = report(f"{what} / {best}", middle[OURS].rate / middle[best].rate, least=least)
    for name, each in middle.items():
        print(f"      {name}: {each.rate:,.0f}/s; broker {each.broker_us:.0f} µs, clients {each.client_us:.0f} µs")
    return good, middle


def _end(number: int, _: FrameType | None) -> None:
    """End as after Ctrl-C: brokers and clients are ended on the way out."""
    raise SystemExit(128 + number)


def main() -> int:
    """Run and report."""
    signal.signal(signal.SIGTERM, _end)
    arguments = sys.argv[1:]
    rounds = int(arguments[0]) if arguments else 5
    scale = float(arguments[1]) if len(arguments) > 1 else 1.0
    waiting = int(arguments[2]) if len(arguments) > 2 else 100_000
    many, few = BATCH * max(1, int(100 * scale)), max(BATCH, int(1000 * scale))
    forwarding(many)
    with peers() as sides:
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        good, piped = compare_rates("pipelined", 1.5, in_turn(sides, rounds, lambda peer: pipelined(peer, many)))
        ratio = piped[OURS].broker_us / piped[ACTIVEMQ].broker_us
        good &= report(f"the broker's processor time a message / {ACTIVEMQ}", ratio, most=0.5)
        for names, leasts, measure, messages in (
            (("PERSISTENT sends, each confirmed", "receive and acknowledge each"), (1.5, 1.0), confirmed, few),
            (
                (f"sends in transactions of {BATCH}", f"receives in transactions of {BATCH}"),
                (2.0, 2.0),
                transacted,
                many,
            ),
        ):
            both = in_turn(sides, rounds, partial(measure, count=messages))
            for index, (what, least) in enumerate(zip(names, leasts, strict=True)):
                figures = {name: [each[index] for each in found] for name, found in both.items()}
                good &= compare_rates(what, least, figures)[0]
        good &= _compare_round_trips(in_turn(sides, rounds, lambda peer: round_trips(peer, few)))
        good &= _compare_backlogs({name: backlog(sides[name], waiting) for name in (OURS, RABBITMQ, ACTIVEMQ)})
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    return 0 if good else 1


def _compare_round_trips(found: dict[str, list[tuple[float, float]]]) -> bool:
    middle = {name: [statistics.median(each) for each in zip(*times, strict=True)] for name, times in found.items()}
    best = min((name for name in middle if name != OURS), key=lambda name: middle[name][0])
    good = report(f"request and reply, p50 / {best}", middle[OURS][0] / middle[best][0], most=0.8)
    for name, (half, most) in middle.items():
        print(f"      {name}: p50 {half:.0f} µs, p99 {most:.0f} µs")
    return good


def _compare_backlogs(found: dict[str, Backlog]) -> bool:
    good = report(
        f"memory of a message that waits / {RABBITMQ}", found[OURS].memory / found[RABBITMQ].memory, most=0.25
    )
    for name, each in found.items():
        print(f"      {name}: {each.memory:,.0f} bytes; sent {each.send:,.0f}/s, drained {each.drain:,.0f}/s")
    return good


if __name__ == "__main__":
    sys.exit(main())
