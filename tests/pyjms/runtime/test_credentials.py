"""Connections that are created without credentials have those of the account that runs the program, for just that place."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import kombu
import pytest

from pyjms import ConnectionFactory, JMSException, JMSSecurityException, aio
from pyjms.jndi import InitialContext
from pyjms.spark.connecting import link_of
from pyjms.spark.options import JmsOptions
from pyjms.spi.clock import SystemClock
from pyjms.spi.credentials import Credentials
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider, ProviderConnection
from pyjms.spi.registry import register_provider
from pyjms.spi.routes import RouteRequest, find_runner
from pyjms_provider.security.passwords import HashSettings, PasswordHasher
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.served_broker import ServedBroker
from tests.pyjms.demo.command_line import Run, runner
from tests.system.network.served import user_broker

SECRET = "correct horse"
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave nothing of the account that runs the tests."""
    for name in ("PYJMS_USER", "PYJMS_PASSWORD", "PYJMS_URL", "PYJMS_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the account's file, as safely as it must be."""

    def write(text: str) -> Path:
        file = tmp_path / "config" / "pyjms" / "credentials.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
        return file

    return write


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    users = tmp_path_factory.mktemp("users") / "users"
    UserFile(users, hasher=PasswordHasher(HashSettings(memory_kib=64, passes=1))).add("ann", SECRET)
    with user_broker(users, argon2_memory_kib=64, argon2_passes=1) as served:
        chosen = {"authentication_providers": ["who"], "access_control": "access"}
        served.broker.create_child("port", {"name": "http", "type": "http", "port": 0, **chosen})
        yield served


@pytest.fixture
def run_pyjms(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


def stomp_of(served: ServedBroker) -> str:
    (url,) = [each for each in served.addresses() if each.startswith("stomp:")]
    return url


def entry(url: str, user: str = "ann", password: str = SECRET) -> str:
    return f'["{url}"]\nuser = "{user}"\npassword = "{password}"\n'


class Seeing(Provider):
    """Sees what it is given, and connects to nothing."""

    seen: tuple[str | None, str | None] = ("", "")
    tried = Event()

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        self.seen = (request.user_name, request.password)
        self.tried.set()
        raise ProviderError("seen enough")


SEEING = Seeing()


@pytest.fixture(autouse=True)
def seeing() -> Iterator[None]:
    register_provider("wrapped", SEEING)
    yield
    register_provider("wrapped", None)


def sent_to(url: str, *arguments: str | None, **options: str) -> tuple[str | None, str | None]:
    """Return what a provider is given for a connection to `url`."""
    with pytest.raises(JMSException, match="seen enough"):
        ConnectionFactory(url, **options).create_connection(*arguments)
    return SEEING.seen


NOTHING: tuple[str | None, str | None] = (None, None)


@pytest.mark.realises("BOIL-CONN-2")
def test_the_file_of_the_account_logs_in(served: ServedBroker, write: Write, run_pyjms: Run) -> None:
    url = stomp_of(served)
    with pytest.raises(JMSSecurityException):
        ConnectionFactory(url).create_connection()
    write(entry(url))
    for factory in (ConnectionFactory(url), pickle.loads(pickle.dumps(ConnectionFactory(url)))):
        factory.create_connection().close()
    found = InitialContext({"connectionfactory.shop": url}).lookup("shop")
    assert isinstance(found, ConnectionFactory)
    found.create_connection().close()

    async def connect() -> None:
        async with aio.ConnectionFactory(url).create_connection():
            pass

    asyncio.run(connect())
    code, _, errors = run_pyjms("send", url, "orders", "espresso")
    # The log may tell only now of the log-in that was refused above.
    found_errors = [line for line in errors.splitlines() if not line.startswith("PYJMS-STOMP-1 ")]
    assert (code, found_errors) == (0, [])


@pytest.mark.parametrize("command", [("manage", "list"), ("story", "ID:1", "--url")])
def test_commands_for_the_http_port_log_in_with_the_entry_of_that_port(
    served: ServedBroker, write: Write, run_pyjms: Run, command: tuple[str, ...]
) -> None:
    stomp, http = sorted(served.addresses(), reverse=True)
    arguments = (*command, http, "queue") if command[0] == "manage" else (*command, http)
    write(entry(stomp))
    code, _, errors = run_pyjms(*arguments)
    assert code == 2, errors
    assert "--user NAME" in errors
    write(entry(stomp, password="another") + entry(http))
    code, _, errors = run_pyjms(*arguments)
    assert "log in" not in errors
    assert command[0] == "story" or code == 0
    write(entry(http)).chmod(0o644)
    code, _, errors = run_pyjms(*arguments)
    assert code == 2
    assert "chmod 600" in errors


@pytest.mark.realises("BOIL-CONN-2")
def test_so_do_the_variables(served: ServedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYJMS_USER", "ann")
    monkeypatch.setenv("PYJMS_PASSWORD", SECRET)
    monkeypatch.setenv("PYJMS_URL", stomp_of(served))
    ConnectionFactory().create_connection().close()
    ConnectionFactory(stomp_of(served)).create_connection().close()


def test_what_a_program_says_itself_comes_first(write: Write) -> None:
    write(entry("wrapped://a:1"))
    assert sent_to("wrapped://a:1") == ("ann", SECRET)
    assert sent_to("wrapped://a:1", "bob", "x") == ("bob", "x")
    assert sent_to("wrapped://a:1", "bob") == ("bob", None), "the password belongs to ann"
    assert sent_to("wrapped://a:1", user_name="bob", password="x") == ("bob", "x")
    assert sent_to("wrapped://bob:x@a:1") == ("bob", "x")
    assert sent_to("wrapped://bob@a:1") == ("bob", None)


@pytest.mark.realises("BOIL-CONN-2")
@pytest.mark.parametrize(
    "other", ["wrapped://a:2", "wrapped://a", "wrapped://b:1", "wrapped://a.example:1", "wrapped://[::1]:1"]
)
def test_another_place_gets_nothing(write: Write, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    write(entry("wrapped://a:1") + entry("stomps://a:1"))
    monkeypatch.setenv("PYJMS_USER", "ann")
    monkeypatch.setenv("PYJMS_PASSWORD", SECRET)
    assert sent_to(other) == NOTHING, "without PYJMS_URL the variables belong to no place"
    monkeypatch.setenv("PYJMS_URL", "wrapped://a:1")
    assert sent_to(other) == NOTHING


def test_the_case_of_a_host_does_not_count_and_that_of_a_password_does(write: Write) -> None:
    write(entry("wrapped://Broker:1", password="aA"))
    assert sent_to("wrapped://bROKER:1") == ("ann", "aA")


def test_variables_come_before_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(entry("wrapped://a:1"))
    monkeypatch.setenv("PYJMS_URL", "wrapped://a:1")
    monkeypatch.setenv("PYJMS_PASSWORD", "x")
    assert sent_to("wrapped://a:1") == ("ann", SECRET), "a password without a user is none"
    monkeypatch.setenv("PYJMS_USER", "bob")
    assert sent_to("wrapped://a:1") == ("bob", "x")


def test_a_broker_in_this_process_is_asked_for_nothing(write: Write) -> None:
    write("no TOML").chmod(0o666)
    ConnectionFactory("vm://unasked").create_connection().close()


def test_a_url_with_several_hosts_needs_the_same_for_all(served: ServedBroker, write: Write) -> None:
    first = stomp_of(served)
    url = f"{first}?failover=127.0.0.1:1,127.0.0.2:1"
    write(entry(first) + entry("stomp://127.0.0.1:1"))
    with pytest.raises(
        JMSSecurityException, match=r"not the same user and password for all of .*stomp://127\.0\.0\.2:1"
    ):
        ConnectionFactory(url).create_connection()
    write(entry(first) + entry("stomp://127.0.0.1:1") + entry("stomp://127.0.0.2:1", password="other"))
    with pytest.raises(JMSSecurityException, match="not the same user and password"):
        ConnectionFactory(url).create_connection()
    write(entry(first) + entry("stomp://127.0.0.1:1") + entry("stomp://127.0.0.2:1"))
    ConnectionFactory(url).create_connection().close()


@pytest.mark.realises("BOIL-CONN-2")
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o602, 0o644, 0o666, 0o601])
def test_a_file_that_others_may_read_is_refused(served: ServedBroker, write: Write, mode: int) -> None:
    write(entry(stomp_of(served))).chmod(mode)
    with pytest.raises(JMSSecurityException, match="chmod 600") as caught:
        ConnectionFactory(stomp_of(served)).create_connection()
    assert caught.value.error_code == "PYJMS-CREDENTIALS"


def test_so_is_one_of_another_user(served: ServedBroker, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(entry(stomp_of(served)))
    if os.geteuid() == 0:
        os.chown(file, 12_345, 12_345)
    else:  # only root may give a file away: this account is another one instead
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(JMSSecurityException, match="belongs to another user"):
        ConnectionFactory(stomp_of(served)).create_connection()


def test_the_variable_names_another_file(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, write: Write
) -> None:
    monkeypatch.setenv("PYJMS_CREDENTIALS", str(tmp_path / "mine"))
    write(entry(stomp_of(served)))
    with pytest.raises(JMSSecurityException, match="PYJMS_CREDENTIALS names, is not there"):
        ConnectionFactory(stomp_of(served)).create_connection()
    write(entry(stomp_of(served))).rename(tmp_path / "mine")
    ConnectionFactory(stomp_of(served)).create_connection().close()


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_refused_without_a_wait(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "place"
    if kind == "pipe":
        os.mkfifo(place, 0o600)
    else:
        place.mkdir(0o700)
    monkeypatch.setenv("PYJMS_CREDENTIALS", str(place))
    with pytest.raises(JMSSecurityException, match="is no file"):
        ConnectionFactory(stomp_of(served)).create_connection()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[stomp://a]", "no TOML"),
        (f'user = "ann"\npassword = "{SECRET}"', "needs user and password"),
        (f'["stomp://a:1"]\npassword = "{SECRET}"', "needs user and password"),
        ('["stomp://a:1"]\nuser = "ann"\npassword = 1', "needs user and password"),
        (entry("stomp://a:1") + 'passphrase = "x"', "nothing else"),
        (entry("stomp://ann:hidden@a:1"), "HOST:PORT alone"),
        (entry("stomp://a:1?failover=b:1"), "HOST:PORT alone"),
        (entry("broker.example"), "lacks SCHEME://"),
        (f'["stomp://a:1"]\nuser = "ann"\npassword = "{SECRET}', "no TOML"),
        ("#" * 1_000_001, "more than 1000000 bytes"),
        ("\udcff", "no TOML"),
    ],
)
def test_what_is_wrong_is_told_and_no_secret_shown(served: ServedBroker, write: Write, text: str, told: str) -> None:
    write("").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(JMSSecurityException, match=told) as caught:
        ConnectionFactory(stomp_of(served)).create_connection()
    linked = caught.value.linked_exception
    assert linked is not None
    shown = repr(caught.value) + repr(linked) + repr(linked.__cause__)
    assert SECRET not in shown
    assert "hidden" not in shown


def test_a_password_is_not_shown() -> None:
    assert SECRET not in repr(Credentials(user_name="ann", password=SECRET))


@pytest.mark.realises("BOIL-CONN-2")
def test_programs_with_kombu_and_jobs_on_spark_log_in_with_it(write: Write) -> None:
    write(entry("wrapped://a:1"))
    celery = kombu.Connection("wrapped://a:1", transport="pyjms.kombu:Transport")
    with pytest.raises(ProviderError, match="seen enough"):
        celery.connect()
    assert SEEING.seen == ("ann", SECRET)
    SEEING.seen = NOTHING
    for credentials, seen in ((None, ("ann", SECRET)), ("env:SPARK_LOGIN", ("bob", "x"))):
        os.environ["SPARK_LOGIN"] = "bob:x"
        try:
            with pytest.raises(ProviderError, match="seen enough"):
                link_of(JmsOptions(url="wrapped://a:1", credentials=credentials)).connection()
        finally:
            del os.environ["SPARK_LOGIN"]
        assert SEEING.seen == seen


@pytest.mark.parametrize("is_in_broker", [False, True])
def test_routes_of_a_command_log_in_with_it_and_those_of_a_broker_do_not(write: Write, is_in_broker: bool) -> None:
    write(entry("wrapped://a:1"))
    SEEING.seen, tried = ("", ""), Event()

    def here(events: ConnectionEvents) -> ProviderConnection:
        raise AssertionError("the route has no site here")

    settings = {"source": "orders", "url": "wrapped://a:1", "targets": [{"url": "wrapped://a:1", "queue": "copies"}]}
    request = RouteRequest(
        name="copies",
        settings=settings,
        here=here if is_in_broker else None,
        clock=SystemClock(),
        on_failure=lambda _: tried.set(),
    )
    SEEING.tried = tried
    route = find_runner("forward").start(request)
    try:
        assert tried.wait(30)
    finally:
        route.stop()
    assert SEEING.seen == (NOTHING if is_in_broker else ("ann", SECRET))
