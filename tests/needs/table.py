"""What tests need from outside Python: how each is found, and the one command that adds it.

A test declares its need in one of three ways:

- A marker, on the function, the class, the module or one value of a parameter: ``@pytest.mark.requires("java")``,
  ``pytestmark = pytest.mark.requires("activemq")``, ``params=["sqlite", needing("postgresql")]`` with `needing` of
  `tests.needs.declaring`. A value of a parameter that names a fixture is declared so.
- A fixture that a need lists below in ``fixtures``: a test that names it as an argument has declared the need.

A new need is one more line of `NEEDS` (and a name in the Makefile's list of targets): a function that finds it, the
Debian packages that have it, and the target of ``make`` that installs them. What Maven, npm and Go fetch for a folder of
`tests/peers` is named in ``peers`` (see `tests.peers.building`).

The finders look along the PATH and below `packages_root`, so that a run can be given an environment without any of it
(``python -m tests.needs without COMMAND``). This module runs on the standard library alone: ``make`` uses it before
anything is installed.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.peers.building import fetched

_JAVA = 17
"""What Spark 4 asks for; ActiveMQ Classic is content with older ones."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something outside Python that tests need."""

    name: str
    title: str
    """As it stands in a sentence: "make java adds TITLE"."""
    find: Callable[[], object]
    """Returns None or False where it is not installed."""
    target: str
    """``make TARGET`` installs it."""
    packages: tuple[str, ...]
    """Of Debian and Ubuntu."""
    fixtures: tuple[str, ...] = ()
    """A test that has one of these as an argument needs it."""
    includes: tuple[str, ...] = ()
    """Other needs that come with it."""
    distributions: tuple[str, ...] = ()
    """Of Python, which pip builds here with what the packages bring."""
    peers: tuple[str, ...] = ()
    """Folders of `tests/peers` whose libraries are fetched with what the packages bring."""

    @property
    def command(self) -> str:
        """What adds it."""
        return f"make {self.target}"


def packages_root() -> Path:
    """Return where the distribution's packages are installed; ``PYJMS_TESTS_PACKAGES`` says so in place of ``/usr``."""
    return Path(os.environ.get("PYJMS_TESTS_PACKAGES", "/usr"))


def program(*names: str) -> str | None:
    """Return the first of these programs that is on the PATH."""
    return next((path for name in names if (path := shutil.which(name))), None)


def java() -> str | None:
    """Return a Java that is new enough: of JAVA_HOME, or on the PATH."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home, "bin", "java")) if home else program("java")
    if path is None or not os.access(path, os.X_OK):
        return None
    told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return path if found is not None and int(found[1]) >= _JAVA else None


def maven() -> str | None:
    """Return Maven, where there is a Java compiler, too."""
    return program("mvn") if program("javac") else None


def are_fetched(*peers: str) -> bool:
    """Return whether the libraries of these folders of `tests/peers` are there."""
    return all(fetched(each) is not None for each in peers)


def postgresql_programs() -> Path | None:
    """Return the directory of PostgreSQL's server; the tests of root run it as the user that its package makes."""
    if os.geteuid() == 0 and not _has_user("postgres"):
        return None
    on_path = program("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted((packages_root() / "lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def activemq_class_path() -> str | None:
    """Return the class path of ActiveMQ's console, with a logger that writes what happens to standard error."""
    jars = packages_root() / "share/activemq/lib"
    slf4j = packages_root() / "share/java/slf4j-simple.jar"
    if not (jars / "activemq-stomp.jar").exists() or not slf4j.exists():
        return None
    return f"{jars}/*:{slf4j}"


def rabbitmq_script() -> Path | None:
    """Return the script that runs RabbitMQ in the foreground."""
    found = sorted((packages_root() / "lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return found[-1] if found and program("epmd") else None


def browser() -> tuple[str, str] | None:
    """Return Chromium and its driver."""
    chromium, driver = program("chromium", "chromium-browser", "google-chrome"), program("chromedriver")
    return (chromium, driver) if chromium and driver else None


def own_mounts() -> list[str] | None:
    """Return how a program is run with mounts of its own, as root or not; None: this system does not let it."""
    if program("unshare") is None or program("mount") is None:
        return None
    command = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    return command if _succeeds(*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt") else None


def proton() -> object:
    """Return whether Qpid Proton's module is there. A run without what packages bring has no compiler to build it with."""
    return "PYJMS_TESTS_PACKAGES" not in os.environ and importlib.util.find_spec("proton") is not None


def azure() -> object:
    """Return whether the SDK of Azure Service Bus is there; a run without what packages bring has none either."""
    if "PYJMS_TESTS_PACKAGES" in os.environ or importlib.util.find_spec("azure") is None:
        return None
    return importlib.util.find_spec("azure.servicebus")


def _succeeds(name: str, *arguments: str) -> bool:
    if program(name) is None:
        return False
    done = subprocess.run(
        [name, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def _by_maven(name: str, title: str, *peers: str, fixtures: tuple[str, ...] = ()) -> Need:
    return Need(name, title, lambda: are_fetched(*peers), "maven", (), fixtures, ("maven",), peers=peers)


NEEDS = {
    need.name: need
    for need in (
        Need("maven", "Maven and a JDK", maven, "maven", ("maven", "default-jdk-headless"), includes=("java",)),
        _by_maven("joram-stomp", "stompjms with Joram's tests", "joram_stomp"),
        _by_maven("qpid-jms", "Qpid JMS with Joram's tests", "joram_amqp", "qpid_jms"),
        _by_maven("artemis", "ActiveMQ Artemis", "artemis", fixtures=("artemis",)),
        _by_maven("activemq_amqp", "ActiveMQ Classic with AMQP", "activemq_amqp", fixtures=("activemq_amqp",)),
        _by_maven("broker_j", "Qpid Broker-J", "broker_j", fixtures=("broker_j",)),
        # Needs of their own: a machine that has them from elsewhere must not get those of Debian, which conflict with them.
        Need("node", "Node with npm", lambda: program("node") and program("npm"), "amqp-clients", ("nodejs", "npm")),
        Need("go", "Go", lambda: program("go"), "amqp-clients", ("golang-go",)),
        Need(
            "rhea",
            "Node's AMQP client rhea",
            lambda: are_fetched("rhea"),
            "amqp-clients",
            (),
            includes=("node",),
            peers=("rhea",),
        ),
        Need(
            "go-amqp",
            "Go's AMQP client",
            lambda: are_fetched("go_amqp"),
            "amqp-clients",
            (),
            includes=("go",),
            peers=("go_amqp",),
        ),
        Need(
            "azure",
            "the SDK of Azure Service Bus",
            azure,
            "amqp-clients",
            (),
            distributions=("azure-servicebus>=7.14,<8",),
        ),
        Need("java", f"Java {_JAVA} or newer", java, "java", ("default-jre-headless",)),
        Need("spark", f"Java {_JAVA} or newer", java, "java", ("default-jre-headless",), ("spark",)),
        Need("postgresql", "PostgreSQL's server", postgresql_programs, "postgresql", ("postgresql",), ("postgresql",)),
        Need("activemq", "ActiveMQ Classic", activemq_class_path, "brokers", ("activemq",), ("activemq",), ("java",)),
        Need("rabbitmq", "RabbitMQ", rabbitmq_script, "brokers", ("rabbitmq-server",), ("rabbitmq",)),
        Need("browser", "Chromium and its driver", browser, "browser", ("chromium", "chromium-driver"), ("chromium",)),
        Need("unshare", "Linux's unshare, and leave to mount", own_mounts, "unshare", ("util-linux", "mount")),
        Need(
            "ruby-stomp",
            "Ruby's STOMP client",
            lambda: _succeeds("ruby", "-e", 'require "stomp"'),
            "stomp-clients",
            ("ruby-stomp",),
        ),
        Need(
            "perl-stomp",
            "Perl's STOMP client",
            lambda: _succeeds("perl", "-MNet::Stomp", "-e", "1"),
            "stomp-clients",
            ("libnet-stomp-perl",),
        ),
        Need(
            "php-stomp",
            "PHP's STOMP client",
            lambda: _succeeds("php", "-r", 'exit(extension_loaded("stomp") ? 0 : 1);'),
            "stomp-clients",
            ("php-cli", "php-stomp"),
        ),
        Need(
            "proton",
            "Qpid Proton for Python",
            proton,
            "proton",
            ("gcc", "libc6-dev", "libssl-dev", "pkg-config", "python3-dev"),
            distributions=("python-qpid-proton>=0.40",),
        ),
    )
}


@cache
def is_there(name: str) -> bool:
    """Return whether a need can be met on this machine, with all that it includes."""
    need = NEEDS[name]
    return bool(need.find()) and all(is_there(other) for other in need.includes)


def packages_of(needs: Iterable[Need]) -> list[str]:
    """Return the packages of needs that are not found, with those of the needs that they include."""
    every = [each for need in needs for each in (need, *(NEEDS[name] for name in need.includes))]
    return list(dict.fromkeys(package for need in every if not need.find() for package in need.packages))


def missing_text(name: str) -> str:
    """Return what to tell of a need that cannot be met."""
    need = NEEDS[name]
    return f"needs {need.title}, which is not on this machine; `{need.command}` adds it (Debian, Ubuntu)"
