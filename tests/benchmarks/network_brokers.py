"""The brokers of the network benchmarks, each a process with files of its own, on free ports of the loopback interface."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))
import psutil

from tests.brokers.running import ActiveMq, Artemis, RabbitMq, RunningBroker
from tests.ports import free_port

__all__ = ["TunedActiveMq", "TunedArtemis", "TunedRabbitMq", "our_broker", "our_broker_with", "process_of"]


class TunedRabbitMq(RabbitMq):
    """With AMQP, and with as many schedulers as it wants."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._ports["amqp"] = free_port()

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        arguments, variables = super().command()
        configuration = self.directory / "rabbitmq.conf"
        listener = f"listeners.tcp.1 = 127.0.0.1:{self._ports['amqp']}"
        configuration.write_text(configuration.read_text().replace("listeners.tcp = none", listener, 1))
        erlang = "-kernel inet_dist_use_interface {127,0,0,1}"
        return arguments, {**variables, "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": erlang}


class TunedActiveMq(ActiveMq):
    """With the memory and the compiler that Java takes by itself."""

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        arguments, variables = super().command()
        slow = {"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
        arguments = [each for each in arguments if each not in slow]
        return [arguments[0], "-Xmx1g", *arguments[1:]], variables


class TunedArtemis(Artemis):
    """With the compiler and the garbage collector that Java takes by itself."""

    options = ("-Xmx1g",)


def process_of(broker: RunningBroker) -> psutil.Process:
    """Return the process that does the work."""
    assert broker._process is not None
    return psutil.Process(broker.main_pid(broker._process.pid))


@contextmanager
def our_broker(directory: Path, scheme: str = "stomp") -> Iterator[tuple[int, psutil.Process]]:
    """Run `pyjms broker run` on a fresh file; give its port and its process."""
    with our_broker_with(directory, (scheme,)) as (ports, process):
        yield ports[scheme], process


@contextmanager
def our_broker_with(directory: Path, schemes: Sequence[str]) -> Iterator[tuple[dict[str, int], psutil.Process]]:
    """Run `pyjms broker run` on a fresh file; give its port for each scheme, and its process."""
    command = [str(Path(sys.executable).with_name("pyjms")), "broker", "run", "--anonymous"]
    for scheme in schemes:
        command += ["--listen", f"{scheme}://127.0.0.1:0"]
    command += ["--store", f"sqlite:///{directory / 'store.db'}"]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ports: dict[str, int] = {}
            while len(ports) < len(schemes):
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError("the broker did not start")
                if line.startswith("listening "):
                    url = urlsplit(line.split()[1])
                    assert url.port is not None
                    ports[url.scheme] = url.port
            yield ports, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()
