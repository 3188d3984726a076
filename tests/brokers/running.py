"""A real broker as a child process: started on free ports of the loopback interface, ended by its process id.

Each is killed at the end, not asked to stop: what it keeps is in a temporary directory, and goes with it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import IO

from tests.needs.declaring import use
from tests.needs.table import activemq_class_path, missing_text, rabbitmq_script
from tests.peers.building import fetched
from tests.ports import free_port


class RunningBroker(ABC):
    """One broker process, and the ports that it listens on."""

    ready: re.Pattern[str]
    """Its last line of output before it takes connections."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "log"
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def command(self) -> tuple[list[str], Mapping[str, str]]:
        """Return what starts it, and what is added to the environment."""

    @property
    @abstractmethod
    def ports(self) -> dict[str, int]:
        """The ports by their protocols: ``stomp``, ``ws``."""

    def start(self) -> None:
        """Start, and return when it takes connections. Raises RuntimeError with its log when it ends instead."""
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments, variables = self.command()
        self._process = subprocess.Popen(
            arguments,
            env={**os.environ, **variables},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # so that its helpers end with it
        )
        output = self._process.stdout
        assert output is not None
        with self.log.open("a") as log:
            for line in output:
                log.write(line)
                if self.ready.search(line):
                    break
            else:
                output.close()
                self.kill()
                log.flush()
                raise RuntimeError(f"the broker did not start:\n{self.log.read_text()}")
        Thread(target=self._drain, args=(output,), name="broker-output", daemon=True).start()

    def _drain(self, output: IO[str]) -> None:
        with output, self.log.open("a") as log:
            for line in output:
                log.write(line)
                log.flush()

    def kill(self) -> None:
        """End it as a loss of power would; what it wrote to the disk stays."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def resident_kib(self) -> int:
        """Return the memory that its process holds, in KiB."""
        assert self._process is not None
        status = Path(f"/proc/{self.main_pid(self._process.pid)}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    def main_pid(self, pid: int) -> int:
        """Return the process that does the work, of the process that was started."""
        return pid


class ActiveMq(RunningBroker):
    """ActiveMQ Classic of Debian with its file store, its scheduler and a port for STOMP, as its console starts one from a URL."""

    ready = re.compile(r"Apache ActiveMQ [\d.]+ \(.*\) started")
    protocol = "stomp"
    parameters = ""
    """Of the listener's URL."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port = free_port()

    @property
    def ports(self) -> dict[str, int]:
        return {self.protocol: self._port}

    def class_path(self) -> str:
        """Return where Java finds the broker."""
        use("activemq")
        path = activemq_class_path()
        assert path is not None, missing_text("activemq")
        return path

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        listener = f"{self.protocol}://127.0.0.1:{self._port}{self.parameters}"
        settings = f"useJmx=false&persistent=true&schedulerSupport=true&dataDirectory={self.directory}/data"
        arguments = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self.class_path()]
        arguments += ["org.apache.activemq.console.Main", "start", f"broker:({listener})?{settings}"]
        return arguments, {}


class ActiveMqAmqp(ActiveMq):
    """ActiveMQ Classic of Maven Central with a port for AMQP, whose module Debian leaves out."""

    protocol = "amqp"
    parameters = "?transport.transformer=jms"  # properties and bodies become those of JMS, and back

    def class_path(self) -> str:
        return _fetched_class_path("activemq_amqp")


class RabbitMq(RunningBroker):
    """RabbitMQ with its STOMP plug-ins: a node, a data directory and a port mapper of its own."""

    ready = re.compile(r"completed with \d+ plugins")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._ports = {"stomp": free_port(), "ws": free_port()}
        self._epmd_port, self._distribution_port = free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def ports(self) -> dict[str, int]:
        return dict(self._ports)

    def start(self) -> None:
        # Started by us and in the foreground: a node that finds none starts one that outlives it.
        self._epmd = subprocess.Popen(
            ["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        super().start()

    def kill(self) -> None:
        super().kill()
        epmd, self._epmd = self._epmd, None
        if epmd is not None:
            epmd.kill()
            epmd.wait()

    def main_pid(self, pid: int) -> int:
        return int((self.directory / "pid").read_text())

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        use("rabbitmq")
        script = rabbitmq_script()
        assert script is not None, missing_text("rabbitmq")
        here = self.directory
        (here / "enabled_plugins").write_text("[rabbitmq_stomp,rabbitmq_web_stomp].\n")
        (here / "rabbitmq.conf").write_text(
            "listeners.tcp = none\n"
            f"stomp.listeners.tcp.1 = 127.0.0.1:{self._ports['stomp']}\n"
            "web_stomp.tcp.ip = 127.0.0.1\n"
            f"web_stomp.tcp.port = {self._ports['ws']}\n"
            "log.file = false\nlog.console = true\nlog.console.level = info\n"
        )
        # One scheduler that does not spin: the machine has others to serve.
        erlang = "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none"
        variables = {
            "HOME": str(here),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"pyjms-tests-{self._ports['stomp']}@localhost",
            "RABBITMQ_MNESIA_BASE": str(here / "mnesia"),
            "RABBITMQ_LOG_BASE": str(here / "logs"),
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(here / "none"),
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": erlang,
        }
        return ["sh", str(script)], variables


class Artemis(RunningBroker):
    """ActiveMQ Artemis with one port for AMQP, and its journal of files, which it forces to the disk."""

    ready = re.compile(r"AMQ221007")
    options: tuple[str, ...] = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    """Of Java."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port = free_port()

    @property
    def ports(self) -> dict[str, int]:
        return {"amqp": self._port}

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        use("artemis")
        fetched_in = fetched("artemis")
        assert fetched_in is not None, missing_text("artemis")
        (home,) = fetched_in.glob("apache-artemis-*")
        instance = self.directory / "instance"
        boot = [
            f"-Dartemis.home={home}",
            "-cp",
            f"{home}/lib/artemis-boot.jar",
            "org.apache.activemq.artemis.boot.Artemis",
        ]
        if not instance.exists():
            listening = [f"--no-{kind}-acceptor" for kind in ("amqp", "hornetq", "mqtt", "stomp")]
            listening += ["--host", "127.0.0.1", "--default-port", str(self._port), "--no-web"]
            known = ["--user", "guest", "--password", "guest", "--allow-anonymous"]
            made = ["java", *boot, "create", str(instance), *known, *listening, "--no-autotune", "--nio", "--silent"]
            done = subprocess.run(made, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        here = {"instance": instance, "instance.etc": instance / "etc", "instance.uri": instance.as_uri()}
        settings = [f"-Dartemis.{name}={value}" for name, value in here.items()]
        settings += [
            f"-Djava.security.auth.login.config={instance}/etc/login.config",
            f"-Djava.io.tmpdir={instance}/tmp",
        ]
        settings += [f"-Dlog4j2.configurationFile={(instance / 'etc/log4j2.properties').as_uri()}"]
        settings += [f"-Ddata.dir={instance}/data", f"-Dartemis.instance.etc.uri={(instance / 'etc').as_uri()}/"]
        return ["java", *self.options, *settings, *boot, "run"], {}


class BrokerJ(RunningBroker):
    """Qpid Broker-J with a port for AMQP 1.0 and messages in Derby; it makes queues on demand, which hold delayed messages."""

    ready = re.compile(r"BRK-1004")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port = free_port()

    @property
    def ports(self) -> dict[str, int]:
        return {"amqp": self._port}

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        path = _fetched_class_path("broker_j")
        configuration = self.directory / "config.json"
        configuration.write_text(json.dumps(self._configuration()))
        arguments = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]
        arguments += ["org.apache.qpid.server.Main", "-prop", f"qpid.work_dir={self.directory}/work"]
        return [*arguments, "-st", "Memory", "-icp", str(configuration)], {}

    def _configuration(self) -> dict[str, object]:
        users = [{"name": "guest", "password": "guest", "type": "managed"}]
        made = {
            "pattern": "(?!TempQueue|TempTopic)[^#].*",
            "createdOnPublish": True,
            "createdOnConsume": True,
            "nodeType": "queue",
        }
        host = {
            "type": "DERBY",
            "name": "default",
            "storePath": f"{self.directory}/work/messages",
            "nodeAutoCreationPolicies": [{**made, "attributes": {}}],
        }
        return {
            "name": "tests",
            "modelVersion": "9.1",
            # Queues hold a message until its delivery time, and housekeeping looks for those whose time has come.
            "context": {"queue.holdOnPublishEnabled": "true", "virtualhost.housekeepingCheckPeriod": "200"},
            "authenticationproviders": [{"name": "users", "type": "Plain", "secureOnlyMechanisms": [], "users": users}],
            "ports": [
                {
                    "name": "amqp",
                    "type": "AMQP",
                    "port": str(self._port),
                    "bindingAddress": "127.0.0.1",
                    "authenticationProvider": "users",
                    "protocols": ["AMQP_1_0"],
                    "virtualhostaliases": [{"name": name, "type": name} for name in ("defaultAlias", "hostnameAlias")],
                }
            ],
            "virtualhostnodes": [
                {
                    "name": "default",
                    "type": "JSON",
                    "defaultVirtualHostNode": "true",
                    "storePath": f"{self.directory}/work/configuration",
                    "virtualHostInitialConfiguration": json.dumps(host),
                }
            ],
        }


def _fetched_class_path(name: str) -> str:
    """Return the class path of a broker whose libraries Maven has fetched."""
    use(name)
    folder = fetched(name)
    assert folder is not None, missing_text(name)
    return f"{folder}/*"


KINDS: dict[str, type[RunningBroker]] = {
    "activemq": ActiveMq,
    "activemq_amqp": ActiveMqAmqp,
    "artemis": Artemis,
    "broker_j": BrokerJ,
    "rabbitmq": RabbitMq,
}
