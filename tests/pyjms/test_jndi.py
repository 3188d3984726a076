from __future__ import annotations

import ast
import os
import pickle
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from traceback import TracebackException
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyjms
from pyjms import InitialContext, NameNotFoundException, NamingException, jndi

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file in a folder of the test's own."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the files of one test after the other."""
    return tmp_path_factory.mktemp("jndi")


class Recorder:
    """Stands for each class of factories and keeps what it was made with."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self.url = url
        self.options = options


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let look-ups make recorders in place of factories."""
    monkeypatch.setattr(jndi, "_FACTORIES", dict.fromkeys(jndi._FACTORIES, Recorder))


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the machine has out of the tests."""
    monkeypatch.delenv(jndi.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.delenv("PYJMS_URL", raising=False)
    monkeypatch.chdir(tmp_path)


# ----------------------------------------------------------------------------------------------------------- look-ups

PROPERTIES = """
# what the shop has
connectionfactory.cf = vm://shop
queueConnectionFactory.qcf = vm://shop
topicConnectionFactory.tcf = vm://shop
xaConnectionFactory.xa = vm://shop
xaQueueConnectionFactory.xaq = vm://shop
xaTopicConnectionFactory.xat = vm://shop
queue.jms/orders = shop.orders
topic.prices: shop.prices
"""

TOML = """
[connection_factory]
cf = "vm://shop"
[queue_connection_factory.qcf]
url = "vm://shop"
[topic_connection_factory]
tcf = "vm://shop"
[xa_connection_factory]
xa = "vm://shop"
[xa_queue_connection_factory]
xaq = "vm://shop"
[xa_topic_connection_factory]
xat = "vm://shop"
[queue]
"jms/orders" = "shop.orders"
[topic]
prices = "shop.prices"
"""


@pytest.mark.parametrize(("name", "text"), [("jndi.properties", PROPERTIES), ("jndi.toml", TOML)])
@pytest.mark.parametrize("found_by", ["path", "text path", "folder", "variable", "file URL"])
def test_each_kind_of_object_is_found_in_each_kind_of_file(
    name: str, text: str, found_by: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(name, text)
    if found_by == "variable":
        path = path.rename(path.with_name(f"other{path.suffix}"))
        monkeypatch.setenv(jndi.ENVIRONMENT_VARIABLE, str(path))
    given: dict[str, Any] = {
        "path": path,
        "text path": str(path),
        "file URL": {"java.naming.provider.url": path.as_uri()},
    }
    context = InitialContext(given.get(found_by))
    assert context.list_names() == ("cf", "jms/orders", "prices", "qcf", "tcf", "xa", "xaq", "xat")
    assert type(context.lookup("cf")) is pyjms.ConnectionFactory
    assert type(context.lookup("qcf")) is pyjms.QueueConnectionFactory
    assert type(context.lookup("tcf")) is pyjms.TopicConnectionFactory
    assert type(context.lookup("xa")) is pyjms.XAConnectionFactory
    assert type(context.lookup("xaq")) is pyjms.XAQueueConnectionFactory
    assert type(context.lookup("xat")) is pyjms.XATopicConnectionFactory
    orders, prices = context.lookup("jms/orders"), context.lookup("prices")
    assert isinstance(orders, pyjms.Queue)
    assert isinstance(prices, pyjms.Topic)
    assert (orders.queue_name, prices.topic_name) == ("shop.orders", "shop.prices")


@pytest.mark.realises("BOIL-SETUP-1")
def test_the_seven_steps_of_setting_up() -> None:
    context = InitialContext({"connectionfactory.cf": "vm://seven-steps", "queue.orders": "shop.orders"})
    factory, queue = context.lookup("cf"), context.lookup("orders")
    assert isinstance(factory, pyjms.ConnectionFactory)
    assert isinstance(queue, pyjms.Queue)
    connection = factory.createConnection()
    try:
        session = connection.createSession(False, pyjms.Session.AUTO_ACKNOWLEDGE)
        consumer = session.createConsumer(queue)
        session.createProducer(queue).send(session.createTextMessage("espresso"))
        assert consumer.receiveNoWait() is None, "a new connection is stopped"
        connection.start()
        message = consumer.receive(10_000)
        assert isinstance(message, pyjms.TextMessage)
        assert message.getText() == "espresso"
    finally:
        connection.close()


@pytest.mark.realises("BOIL-SETUP-2")
def test_administered_objects_survive_pickling() -> None:
    context = InitialContext(PICKLED)
    for name in ("orders", "prices"):
        found = context.lookup(name)
        assert pickle.loads(pickle.dumps(found)) == found
    for name in ("cf", "qcf", "tcf", "xacf"):
        found = context.lookup(name)
        copied = pickle.loads(pickle.dumps(found))
        assert type(copied) is type(found)
        assert repr(copied) == repr(found)
    factory: Any = pickle.loads(pickle.dumps(context.lookup("cf")))
    with factory.create_connection() as connection:
        assert connection.client_id == "till-1"


PICKLED = {
    "connectionfactory.cf": "vm://pickled",
    "property.connectionfactory.cf.client_id": "till-1",
    "queueconnectionfactory.qcf": "vm://pickled",
    "topicconnectionfactory.tcf": "vm://pickled",
    "xaconnectionfactory.xacf": "vm://pickled",
    "queue.orders": "shop.orders",
    "topic.prices": "shop.prices",
}


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    "environment",
    [
        {
            "connectionfactory.cf": "vm://shop",
            "property.connectionfactory.cf.clientID": "till-1",
            "property.connectionfactory.cf.userName": "ann",
            "property.connectionfactory.cf.password": "secret",
        },
        {
            "connection_factory": {
                "cf": {"url": "vm://shop", "client_id": "till-1", "user": "ann", "password": "secret"}
            }
        },
    ],
)
def test_a_factory_has_options(environment: dict[str, Any]) -> None:
    factory: Any = InitialContext(environment).lookup("cf")
    assert factory.url == "vm://shop"
    assert factory.options == {"client_id": "till-1", "user_name": "ann", "password": "secret"}


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("key", ["java.naming.provider.url", "provider_url"])
def test_the_provider_url_serves_factories_without_their_own(key: str) -> None:
    context: Any = InitialContext({key: "vm://shop", "connectionFactoryNames": "a, b", "connection_factory": {"c": {}}})
    own = ("ConnectionFactory", "QueueConnectionFactory", "XATopicConnectionFactory")
    for name in ("a", "b", "c", *own, "java:comp/DefaultJMSConnectionFactory"):
        assert context.lookup(name).url == "vm://shop"
    assert context.list_names() == ("a", "b", "c")


def test_the_factory_of_application_servers_needs_no_entry() -> None:
    factory = InitialContext({}).lookup("java:comp/DefaultJMSConnectionFactory")
    assert type(factory) is pyjms.ConnectionFactory
    other: Any = InitialContext({"topic.java:comp/DefaultJMSConnectionFactory": "news"})
    assert isinstance(other.lookup("java:comp/DefaultJMSConnectionFactory"), pyjms.Topic)


def test_the_factories_of_activemqs_files_are_of_both_domains(tmp_path: Path) -> None:
    """Its file names its factories in connectionFactoryNames, and their options in connection.NAME.OPTION."""
    path = tmp_path / "jndi.properties"
    path.write_text(
        "java.naming.factory.initial = org.apache.activemq.jndi.ActiveMQInitialContextFactory\n"
        "java.naming.provider.url = vm://one\n"
        "connectionFactoryNames = connectionFactory, queueConnectionFactory, topicConnectionFactry\n"
        "connection.topicConnectionFactry.brokerURL = vm://two\n"
        "connection.queueConnectionFactory.userName = ann\n"
        "connection.queueConnectionFactory.clientID = till-1\n"
        "connection.ConnectionFactory.password = secret\n"
        "connection.nobody.brokerURL = vm://three\n",
        encoding="utf-8",
    )
    context: Any = InitialContext(path)
    for name in ("connectionFactory", "queueConnectionFactory", "topicConnectionFactry", "ConnectionFactory"):
        for domain in (pyjms.QueueConnectionFactory, pyjms.TopicConnectionFactory):
            assert isinstance(context.lookup(name), domain)
    assert "two" in repr(context.lookup("topicConnectionFactry"))
    assert "one" in repr(context.lookup("queueConnectionFactory"))
    with context.lookup("queueConnectionFactory").createQueueConnection() as connection:
        assert connection.getClientID() == "till-1"
    assert "nobody" not in context.list_names()


def test_some_names_need_no_environment() -> None:
    context = InitialContext()
    assert context.list_names() == ()
    assert type(context.lookup("TopicConnectionFactory")) is pyjms.TopicConnectionFactory
    queue, topic = context.lookup("dynamicQueues/${a}/b"), context.lookup("java:comp/env/dynamicTopics/prices")
    assert isinstance(queue, pyjms.Queue)
    assert isinstance(topic, pyjms.Topic)
    assert (queue.queue_name, topic.topic_name) == ("${a}/b", "prices")


def test_the_prefix_of_java_ee_is_left_out_but_for_names_that_have_it() -> None:
    context: Any = InitialContext({"queue.jms/a": "plain", "queue.jms/b": "plain", "queue.java:comp/env/jms/b": "full"})
    names = [context.lookup(f"java:comp/env/jms/{name}").queue_name for name in "ab"]
    assert names == ["plain", "full"]


@pytest.mark.parametrize("prefix", ["java:comp/env/", "java:/", "java:"])
def test_the_prefixes_of_application_servers_are_left_out(prefix: str) -> None:
    context: Any = InitialContext(
        {"queue.jms/queue/Orders": "orders", "queue.java:/full": "full", "queue.full": "plain"}
    )
    assert context.lookup(f"{prefix}jms/queue/Orders").queue_name == "orders"
    assert context.lookup(f"{prefix}full").queue_name == ("full" if prefix == "java:/" else "plain")
    assert type(context.lookup(f"{prefix}TopicConnectionFactory")) is pyjms.TopicConnectionFactory
    assert context.lookup(f"{prefix}dynamicQueues/a").queue_name == "a"
    with pytest.raises(NameNotFoundException, match=f"no name '{prefix}jms/queue/Order'; is 'jms/queue/Orders' meant"):
        context.lookup(f"{prefix}jms/queue/Order")
    with pytest.raises(NameNotFoundException, match="no name"):
        context.lookup(prefix)


def test_entries_of_a_mapping_go_before_those_of_its_file(write: Write) -> None:
    path = write("a.properties", "queue.a = from file\nqueue.b = from file")
    context: Any = InitialContext({"java.naming.provider.url": path.as_uri(), "queue.a": "from mapping"})
    assert [context.lookup(name).queue_name for name in "ab"] == ["from mapping", "from file"]


def test_what_was_looked_up_outlives_the_context() -> None:
    with InitialContext({"queue.a": "orders"}) as context:
        queue = context.lookup("a")
    assert isinstance(queue, pyjms.Queue)
    assert queue.queue_name == "orders"
    for use in (context.list_names, lambda: context.lookup("a")):
        with pytest.raises(NamingException, match="closed"):
            use()
    context.close()


# ---------------------------------------------------------------------------------------------------------- variables


@pytest.mark.usefixtures("recorded")
def test_variables_are_other_entries_or_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_HOST", "${not expanded}")
    monkeypatch.setenv("PORT", "hidden by the entry")
    context = InitialContext(
        {
            "PORT": "616${digits}",
            "digits": "13",
            "connectionfactory.cf": "stomp://${SHOP_HOST}:${PORT}/$${plain}",
            "property.connectionfactory.cf.client_id": "till-${digits}",
            "queue.orders": "orders.${digits}",
        }
    )
    factory: Any = context.lookup("cf")
    assert factory.url == "stomp://${not expanded}:61613/${plain}"
    assert factory.options == {"client_id": "till-13"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("queue.a = ${b}\nb = ${c}\nc = ${b}", r"line 3: .*circle: b → c → b"),
        ("queue.a = ${queue.a}", r"line 1: .*circle: queue\.a → queue\.a"),
        ("\nqueue.a = ${PYJMS_NOT_SET}", r"line 2: \$\{PYJMS_NOT_SET\} is neither .*set one of them"),
        ("queue.a = ${b", r"line 1: '\$\{' is never closed"),
    ],
)
def test_a_variable_that_leads_nowhere_is_reported_at_the_look_up(write: Write, text: str, problem: str) -> None:
    path = write("shop.properties", text + "\nqueue.z = fine")
    context = InitialContext(path)
    assert isinstance(context.lookup("z"), pyjms.Queue)
    with pytest.raises(NamingException, match=f"shop.properties, {problem}"):
        context.lookup("a")


# -------------------------------------------------------------------------------------------------------------- errors


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    context = InitialContext({"queue.orders": "o", "topic.prices": "p"})
    with pytest.raises(NameNotFoundException, match="no name 'oders'; is 'orders' meant"):
        context.lookup("oders")
    with pytest.raises(NameNotFoundException, match=r"it has orders, prices\. Add 'queue\.xyz': 'PHYSICAL-NAME'"):
        context.lookup("xyz")
    with pytest.raises(LookupError, match="it has no names at all"):
        InitialContext().lookup("xyz")


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "java:/jms/queue/Orders",
        "a.b",
        "a:b = c",
        "C:\\x\\",
        'say "x"',
        "it's",
        "\ttab\r\n\f",
        "#ä€\x7f",
        "java:",
    ],
)
@pytest.mark.parametrize("kind", ["properties", "toml", "mapping", "mapping of a file"])
def test_who_follows_the_advice_to_the_letter_finds_the_name(write: Write, kind: str, name: str) -> None:
    path = write(f"jndi.{'toml' if kind == 'toml' else 'properties'}", "")
    given: Any = {"mapping": {}, "mapping of a file": {"provider_url": path.as_uri()}}.get(kind, path)
    with pytest.raises(NameNotFoundException) as caught:
        InitialContext(given).lookup(name)
    advice = str(caught.value).partition(" Add ")[2]
    if kind == "toml":
        write("jndi.toml", "[queue]\n" + advice[1 : advice.index("' to the table [queue], or ")])
    elif kind == "mapping":
        key = advice[: advice.index(": 'PHYSICAL-NAME' or ")]
        given = {ast.literal_eval(key): "PHYSICAL-NAME"}
    else:
        line = advice[: advice.index("' or 'connectionfactory.")].removeprefix("an entry such as '")
        write("jndi.properties", line)
    queue = InitialContext(given).lookup(name)
    assert isinstance(queue, pyjms.Queue)
    assert queue.queue_name == "PHYSICAL-NAME"
    dynamic = InitialContext(given).lookup(advice.rpartition("or look up '")[2][:-1])
    assert isinstance(dynamic, pyjms.Queue)


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_look_up_needs_a_name(name: Any) -> None:
    with pytest.raises(NamingException, match="needs a name"):
        InitialContext().lookup(name)


def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "none.properties", tmp_path):
        with pytest.raises(NamingException, match=r"cannot read .*correct the path .*PYJMS_JNDI"):
            InitialContext(path)
    monkeypatch.setenv(jndi.ENVIRONMENT_VARIABLE, "none.toml")
    with pytest.raises(NamingException, match=r"cannot read none\.toml: No such file"):
        InitialContext()


def test_two_files_are_one_too_many(write: Write) -> None:
    write("jndi.properties", "")
    write("jndi.toml", "")
    with pytest.raises(NamingException, match=r"both jndi\.properties and jndi\.toml; keep one, or name one in PYJMS"):
        InitialContext()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.properties", "\nqueue.a = x\ntopic.a = y", r"line 3: 'a' is a queue already \(.*a\.properties, line 2\)"),
        ("a.properties", "queue.a = \\u12", r"line 1: '\\u' needs four hexadecimal digits"),
        ("a.properties", "property.connectionfactory.cf.x = 1", r"line 1: there is no connectionfactory\.cf that"),
        ("a.toml", "x =\ny = 1", r"is no TOML: .*line 1"),
        ("a.toml", "[queues]\na = 'x'", r"\[queues\]: there is no table 'queues'; the tables are connection_factory"),
        ("a.toml", "[queue]\nshop.orders = 'x'", r"\[queue\], name 'shop': .*name with dots as \"shop\.…\""),
        ("a.toml", "[queue]\na = 1", r"\[queue\], name 'a': the value must be a text"),
        ("a.toml", "[connection_factory.cf]\nurl = 1", r"\[connection_factory\], name 'cf': url must be a text"),
        ("a.toml", "port = 1", r"key 'port': the value must be a text, not int"),
        ("a.toml", "port = " + "[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_file_that_says_something_wrong(write: Write, name: str, text: str, problem: str) -> None:
    path = write(name, text)
    with pytest.raises(NamingException, match=problem) as raised:
        InitialContext(path)
    assert str(raised.value).startswith(str(path))
    assert raised.value.getMessage() == str(raised.value)


@pytest.mark.parametrize("url", ["shop", "vm:shop", "://shop"])
def test_a_wrong_url_is_reported_with_its_place(write: Write, url: str) -> None:
    path = write("a.properties", f"\nconnectionfactory.cf = {url}\nqueue.a =")
    context = InitialContext(path)
    with pytest.raises(NamingException, match=r"a\.properties, line 2: ") as raised:
        context.lookup("cf")
    assert isinstance(raised.value.__cause__, pyjms.JMSException)
    with pytest.raises(NamingException, match=r"a\.properties, line 3: "):
        context.lookup("a")


def test_a_naming_exception_is_no_jms_exception() -> None:
    assert not issubclass(NamingException, pyjms.JMSException)
    assert issubclass(NameNotFoundException, NamingException)
    assert NamingException().message is None


def test_secrets_do_not_show() -> None:
    context = InitialContext(
        {
            "connectionfactory.cf": "vm://ann:hunter2@shop?token=hunter2",
            "property.connectionfactory.cf.password": "hunter2",
        }
    )
    assert repr(context) == "<InitialContext of the environment: cf>"
    with pytest.raises(NameNotFoundException) as raised:
        context.lookup("nobody")
    # As tools for errors show it, with what each function had at hand: all entries.
    trace = TracebackException.from_exception(raised.value, capture_locals=True)
    for shown in (repr(context.lookup("cf")), "".join(trace.format()), str(vars(context))):
        assert "hunter2" not in shown


# ----------------------------------------------------------------------------------------------- the syntax of Java


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b\nc : d", {"a": "b", "c": "d"}),
        ("a b\n  c\t d=e", {"a": "b", "c": "d=e"}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("=b", {"": "b"}),
        ("# a=b\n  ! c=d\n\n \t\f\n e=f", {"e": "f"}),
        ("a=1\ra=2\r\nb=3", {"a": "2", "b": "3"}),
        ("a = b, \\\n    c, \\\r\n\td", {"a": "b, c, d"}),
        ("a = b\\\n# c", {"a": "b# c"}),
        ("a = b\\\n\nc = d", {"a": "b", "c": "d"}),
        ("a = b\\\\\nc = d", {"a": "b\\", "c": "d"}),
        ("a = b\\\\\\\nc", {"a": "b\\c"}),
        ("a = b\\", {"a": "b"}),
        ("a = #b!", {"a": "#b!"}),
        (r"a\ b\=c\:d = e", {"a b=c:d": "e"}),
        (r"a = \t\n\r\f\z\"\ b", {"a": '\t\n\r\fz" b'}),
        (r"a = \u00e9\u20AC\ud83d\ude00", {"a": "é€😀"}),
        (r"\u0061 = b", {"a": "b"}),
        ("é = €", {"é": "€"}),
        ("\ufeffa = b", {"a": "b"}),
        ("a\\\n  b = c", {"ab": "c"}),
    ],
)
def test_properties_are_read_as_java_reads_them(write: Write, text: str, expected: dict[str, str]) -> None:
    assert read_from(write("a.properties", text), expected) == expected


@pytest.mark.parametrize("mark", ["#", "!"])
def test_a_comment_is_no_property(write: Write, mark: str) -> None:
    path = write("a.properties", f"{mark} a=b\n  {mark} queue.c=d\n{mark}queue.c=d\n")
    for key in (mark, f"{mark}queue.c", "a", "c"):
        with pytest.raises(NamingException, match="is neither an entry of"):
            read_from(path, [key])
    assert InitialContext(path).list_names() == ()


def test_a_file_that_is_no_utf_8_is_latin_1_as_in_old_java(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_bytes("a = é".encode("latin-1"))
    assert read_from(path, "a") == {"a": "é"}


def test_the_line_of_an_entry_is_its_first(write: Write) -> None:
    context = InitialContext(write("a.properties", "queue.a = ${1}\n\n# x\nqueue.b = ${2}, \\\n 3\nqueue.c = ${4}"))
    for name, line in (("a", 1), ("b", 4), ("c", 6)):
        with pytest.raises(NamingException, match=rf"a\.properties, line {line}: "):
            context.lookup(name)


def read_from(path: Path, keys: Iterable[str]) -> dict[str, str]:
    """Return what keys of a file of properties stand for where an entry refers to them."""
    referring = {f"queue.{number}": f"<${{{key}}}>" for number, key in enumerate(keys)}
    context = InitialContext({"java.naming.provider.url": path.as_uri(), **referring})
    found: dict[str, str] = {}
    for number, key in enumerate(keys):
        queue = context.lookup(str(number))
        assert isinstance(queue, pyjms.Queue)
        found[key] = queue.queue_name[1:-1]
    return found


def _stored(text: str) -> str:
    """Write a text as java.util.Properties.store does."""
    escaped = "".join(f"\\{char}" if char in "\\ \t\n\r\f=:#!" else char for char in text)
    return escaped.replace("\\\t", "\\t").replace("\\\n", "\\n").replace("\\\r", "\\r").replace("\\\f", "\\f")


# Without halves of characters: they are no text of UTF-8.
texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\\ \t\n\r\f=:#!u"), max_size=20)
# No entry refers to a key with a brace.
keys = texts.map(lambda text: text.replace("{", "").replace("}", ""))


@given(stored=st.dictionaries(keys, texts, max_size=4), end=st.sampled_from(["\n", "\r", "\r\n"]))
def test_what_java_stores_is_read_as_it_was(folder: Path, stored: dict[str, str], end: str) -> None:
    plain = {key: value.replace("${", "$${") for key, value in stored.items()}
    text = "#a comment" + end + "".join(f"{_stored(key)}={_stored(value)}{end}" for key, value in plain.items())
    path = folder / "stored.properties"
    path.write_bytes(text.encode())
    assert read_from(path, stored) == stored


@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_by_name(folder: Path, content: bytes) -> None:
    path = folder / "any.properties"
    for written in (content, b"queue." + content.replace(b"\n", b"\nqueue.")):
        path.write_bytes(written)
        with suppress(NamingException):
            found = InitialContext(path).list_names()
            assert len(found) <= content.count(b"\n") + content.count(b"\r") + 1


def test_the_environment_variable_has_its_documented_name() -> None:
    assert jndi.ENVIRONMENT_VARIABLE == "PYJMS_JNDI"
    assert jndi.ENVIRONMENT_VARIABLE not in os.environ
