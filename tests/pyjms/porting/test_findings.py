"""What is not translated, or has to be looked at, is told, and raises when it is reached: nothing is wrong without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.porting import java
from pyjms.porting.model import PortedFile
from pyjms.porting.program import port
from tests.pyjms.porting.running import imported

HEAD = """import java.util.*;
import javax.jms.*;
import javax.naming.*;
import org.apache.activemq.ActiveMQConnectionFactory;
class Case {
"""


def ported(members: str) -> PortedFile:
    (made,) = port({"Case.java": f"{HEAD}{members}\n}}\n"})
    compile(made.python, "Case.py", "exec")
    return made


# Statements of a method `void run(Object o, Session session, int n, String s, double d)`, and what is told of them.
NOT_PORTED = [
    ('if (s == "x") n = 1;', "== between objects of java.lang.String"),
    ("Integer a = n, b = 5; if (a == b) n = 1;", "== between objects of java.lang.Integer"),
    ("outer: while (true) { while (true) { break outer; } }", "a label"),
    ("assert n > 0;", "assert"),
    ('s.split("[a-z&&[^b]]");', "the regular expression [a-z&&[^b]]"),
    ('s.getBytes("x-nobody");', "the charset x-nobody"),
    ('new java.text.SimpleDateFormat("w");', "the letter w in a format of dates"),
    ("session.createProducer(null).setDelay(5);", "MessageProducer.setDelay(int)"),
    ("new com.ibm.mq.jms.MQQueueConnectionFactory();", "new com.ibm.mq.jms.MQQueueConnectionFactory"),
    ("int[][] a = new int[2][2]; int[] b = a[n]; Stack<?> c = null; c.frob();", "Stack.frob()"),
    ("List<Long> longs = new ArrayList<>(); n = longs.contains(5) ? 1 : 0;", "a comparison of java.lang.Long with int"),
    (
        "List<String> list = new ArrayList<>(); for (String each : list) { list.remove(each); }",
        "a collection that it changes",
    ),
    ("System.out.println(new int[3]);", "the text of an array"),
    ("int[] a = new int[3]; int i = 0; a[i++] = i;", "whose place"),
    ("Map<String, Integer> m = new HashMap<>(); m.get(s).frobnicate();", "Integer.frobnicate()"),
    ("unknown.call(n);", "unknown.call(int)"),
    ("com.example.Tool.call(n);", "com.example.Tool"),
    ('System.out.println("\\uD83D\\uDE00");', "a character beyond U+FFFF"),
    ("JMSContext context = null; context.frobnicate();", "JMSContext.frobnicate()"),
    ("session.createSharedConsumer(null);", "Session.createSharedConsumer("),
    ("Class<String> c = String.class; session.createMessage().getBody(c);", "the class of a body that is known when"),
    ("session.createMessage().getBody(Number.class);", "the class java.lang.Number of a body"),
    ("new JmsTemplate().send(s);", "new JmsTemplate"),
    (
        "for (int i = 0; i < n; i += 2) { try { if (i > 1) continue; } finally { n = i; } }",
        "continue in a for with a finally",
    ),
    ("Object p = 1, q = 1; if (p == q) n = 1;", "== between objects of java.lang.Object"),
    ("Double p = d; if (p.equals(1.0)) n = 1;", "equals() of java.lang.Double"),
]
CHECK = [
    ('session.createMessage().setStringProperty("order-id", s);', "the property name order-id"),
    ("session.createMessage().setIntProperty(NAME, n);", "the property name a b"),
    ('session.createMessage().setIntProperty("JMSXRcvTimestamp", n);', "the property name JMSXRcvTimestamp"),
    ("s.split(s);", "a regular expression that is known when the program runs"),
    ("new java.text.SimpleDateFormat(s);", "a format of dates that is known when the program runs"),
    ("Thread.currentThread().interrupt();", "interrupt()"),
    ("java.util.logging.Logger.getLogger(s);", "a logger"),
    ('new ActiveMQConnectionFactory("tcp://one:61616");', "the broker tcp://one:61616"),
    ("new ActiveMQConnectionFactory(s);", "the URL of the broker"),
    ('new ActiveMQConnectionFactory("vm://localhost");', "the broker vm://localhost"),
    (
        "Map<String, Integer> m = new HashMap<>(); for (String k : m.keySet()) { n += m.get(k); }",
        "the order of keySet()",
    ),
    ("Map<String, Integer> m = new HashMap<>(); System.out.println(m);", "the text of a collection without an order"),
    ("Set<String> m = new HashSet<>(); for (String k : m) { s += k; }", "the order of a set"),
    ('session.createQueue("a,b");', "the name of a destination"),
    ('System.out.println(session.createQueue("q"));', "the text of a Queue"),
    ('s = session.createTopic("t").toString();', "the text of a Topic"),
    ("System.out.println(session.createTextMessage(s));", "the text of a TextMessage"),
    ("System.out.println(o.getClass());", "the name of a class"),
    ('s = System.getProperty("url");', "a system property"),
    ("session.createObjectMessage(new Order());", "an object of the program in an ObjectMessage"),
    ("JMSProducer p = null; p.send(null, new Order());", "an object of the program in an ObjectMessage"),
    ("JMSProducer p = null; p.send(null, (java.io.Serializable) o);", "a body declared as Serializable"),
    ("JMSProducer p = null; p.send(null, (String) null);", "null as a body"),
    ('JMSProducer p = null; p.setProperty("order-id", 5);', "the property name order-id"),
    ("JMSProducer p = null; System.out.println(p);", "the text of a JMSProducer"),
]


def method(body: str) -> str:
    return (
        'static final String NAME = "a b";'
        "static class Order implements java.io.Serializable {}\n"
        f"static void run(Object o, Session session, int n, String s, double d) throws Exception {{ {body} }}"
    )


@pytest.mark.parametrize(("body", "what"), NOT_PORTED)
def test_what_is_not_ported_is_told_and_raises(body: str, what: str, tmp_path: Path) -> None:
    made = ported(method(body))
    told = [each for each in made.findings if what in each.what]
    assert told, made.findings
    assert {each.kind for each in told} == {"not ported"}
    assert all(each.line == 7 and each.advice for each in told)
    assert made.translated < made.statements
    assert "raise java.NotPorted(" in made.python
    assert told[0].what in made.python.replace('\\"', '"')
    imported(tmp_path, "Case", made.python)


@pytest.mark.parametrize(("body", "what"), CHECK)
def test_what_is_to_be_looked_at_is_told_and_translated(body: str, what: str, tmp_path: Path) -> None:
    made = ported(method(body))
    assert [(each.kind, each.line) for each in made.findings if what in each.what] == [("check", 7)], made.findings
    assert made.translated == made.statements
    imported(tmp_path, "Case", made.python)


def test_reaching_what_is_not_ported_is_no_error_that_the_program_catches(tmp_path: Path) -> None:
    made = ported("static void run() { try { assert 1 > 2; } catch (Exception e) {} finally { int n = 1; } }")
    with pytest.raises(java.NotPorted, match=r"Case\.java:6: assert"):
        imported(tmp_path, "Case", made.python).Case.run()


def test_the_java_stands_in_the_place_as_a_comment() -> None:
    made = ported("static void run(int n) {\n    assert n > 2\n        || n < 0;\n}")
    assert "        # assert n > 2\n        #     || n < 0;\n        raise java.NotPorted(" in made.python


def test_a_statement_that_has_no_translation_leaves_the_others(tmp_path: Path) -> None:
    made = ported("static int run(int n) { if (n > 5) { assert n > 6; n++; } return n; }")
    case = imported(tmp_path, "Case", made.python).Case
    assert case.run(3) == 3
    with pytest.raises(java.NotPorted):
        case.run(7)
    assert (made.statements, made.translated) == (4, 3)


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ("record Pair(int a, int b) {}", "the record Pair"),
        ("static class A extends org.springframework.Base {}", "A extends or implements org.springframework.Base"),
        ("static final Object X = com.example.Tool.make();", "com.example.Tool"),
        ("final Object x = com.example.Tool.make();", "com.example.Tool"),
        ("@Inject Object x;", "the annotation @Inject"),
        ("@Resource Object x;", "the annotation @Resource"),
        ("@Inject JMSContext x;", "the annotation @Inject"),
        ("class Inner extends Case {}", "Inner extends the class around it"),
    ],
)
def test_members_that_are_not_ported_are_told(members: str, what: str) -> None:
    found = [each for each in ported(members).findings if what in each.what]
    assert found
    assert {each.kind for each in found} == {"not ported"}


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ("static { System.out.println(1); }", "a static initializer"),
        ("@javax.ejb.MessageDriven static class Bean {}", "the message-driven bean Bean"),
        ("@Stateless static class Bean {}", "the annotation @Stateless"),
        ('@Resource(lookup = "jms/cf") static ConnectionFactory cf;', "names of JNDI"),
        ("static Case one = new Case();", "the static field one"),
        ('@JmsListener(destination = "x") void f(String s) {}', "the annotation @JmsListener"),
        ("void f(XAConnection c) throws JMSException { c.createXASession(); }", "a distributed transaction"),
        ("void f(XAConnectionFactory f) { f.createXAContext(); }", "a distributed transaction"),
        ("void f() throws NamingException { new InitialContext(); }", "names of JNDI"),
        (
            "public static void main(String[] a) throws JMSException { MessageConsumer c = null; c.setMessageListener(m -> {}); }",
            "main returns while the program listens",
        ),
    ],
)
def test_members_to_look_at_are_told(members: str, what: str) -> None:
    assert [each.kind for each in ported(members).findings if what in each.what] == ["check"]


def test_a_static_field_that_was_not_ported_raises_when_it_is_read(tmp_path: Path) -> None:
    made = ported("static final Object X = com.example.Tool.make();\nstatic Object get() { return X; }")
    with pytest.raises(java.NotPorted, match="Tool"):
        imported(tmp_path, "Case", made.python).Case.get()


def test_a_class_that_was_not_ported_raises_when_it_is_made(tmp_path: Path) -> None:
    made = ported("record Pair(int a, int b) {}\nstatic Object get() { return new Pair(1, 2); }")
    with pytest.raises(java.NotPorted, match=r"Pair"):
        imported(tmp_path, "Case", made.python).Case.get()


def test_a_syntax_error_is_told_with_its_place(tmp_path: Path) -> None:
    (made,) = port({"Broken.java": "class Broken {\n    void f() { int = 5; }\n}\n"})
    assert [(each.kind, each.line, each.column) for each in made.findings] == [("syntax", 2, 19)]
    assert made.translated == 0
    with pytest.raises(SyntaxError, match=r"Broken\.java:2"):
        imported(tmp_path, "Broken", made.python)


def test_loop_variables_that_a_function_keeps_are_kept(tmp_path: Path) -> None:
    made = ported(
        "static List<Runnable> run(List<String> out) { List<Runnable> all = new ArrayList<>();"
        ' for (int i = 0; i < 3; i++) { int j = i; all.add(() -> out.add("n" + j)); } return all; }'
    )
    out: list[str] = []
    for each in imported(tmp_path, "Case", made.python).Case.run(out):
        each()
    assert out == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    "statement",
    [
        "s = " + " + ".join(['"a"'] * 3000) + ";",
        "n = " + " + ".join(["n"] * 3000) + ";",
        "if (n > 0) " * 3000 + "n = 1;",
    ],
    ids=["texts", "numbers", "statements"],
)
def test_what_has_too_many_levels_is_told(statement: str) -> None:
    made = ported(f"void run(int n, String s) {{ {statement} }}")
    assert any("many levels" in finding.what for finding in made.findings)


def test_what_has_no_statement_counts_too() -> None:
    made = ported("record Pair(int a, int b) {}")
    assert (made.statements, made.translated) == (1, 0)


def test_a_static_initializer_that_stops_the_import_is_told(tmp_path: Path) -> None:
    made = ported("static int n; static { n = 1; assert n > 1; }")
    told = {each.what: each.kind for each in made.findings}
    assert told["a static initializer that stops the import"] == "check"
    assert told["assert"] == "not ported"
    with pytest.raises(java.NotPorted):
        imported(tmp_path, "Case", made.python)


def test_a_resource_is_looked_up_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = ported(
        '@Resource(mappedName = "jms/cf") private static ConnectionFactory factory;\n'
        '@Resource(name = PREFIX + "orders") private javax.jms.Queue queue;\nstatic final String PREFIX = "jms/";\n'
        "static ConnectionFactory factory() { return factory; }\nString name() throws JMSException { return queue.getQueueName(); }"
    )
    assert {each.kind for each in made.findings} == {"check"}
    case = imported(tmp_path, "Case", made.python).Case
    (tmp_path / "jndi.properties").write_text("connectionfactory.jms/cf = vm://x\nqueue.jms/orders = shop.orders\n")
    assert "vm" in repr(case.factory())
    assert case.factory() is case.factory()
    assert case().name() == "shop.orders"


def test_a_field_that_a_container_would_fill_raises_until_it_is_set(tmp_path: Path) -> None:
    made = ported("@Inject private Object tool;\nObject get() { return tool; }\nvoid set(Object o) { tool = o; }")
    case = imported(tmp_path, "Case", made.python).Case()
    with pytest.raises(java.NotPorted, match="@Inject"):
        case.get()
    case.set("x")
    assert case.get() == "x"


def test_the_advice_on_a_vendors_factory_names_what_to_use() -> None:
    for name in (
        "com.ibm.mq.jms.MQConnectionFactory",
        "com.sun.messaging.ConnectionFactory",
        "com.tibco.tibjms.TibjmsConnectionFactory",
    ):
        (found,) = [each for each in ported(method(f"new {name}();")).findings if each.kind == "not ported"]
        assert "stomp://" in found.advice


@pytest.mark.parametrize(
    ("members", "annotation", "advice"),
    [
        (
            '@JMSDestinationDefinition(name = "java:app/q", interfaceName = "jakarta.jms.Queue") static class Bean {}',
            "@JMSDestinationDefinition",
            "queue.NAME = DESTINATION",
        ),
        (
            '@JMSDestinationDefinitions({@JMSDestinationDefinition(name = "q", interfaceName = "javax.jms.Queue")}) static class Bean {}',
            "@JMSDestinationDefinitions",
            "queue.NAME = DESTINATION",
        ),
        (
            '@JMSConnectionFactoryDefinition(name = "java:app/cf") static class Bean {}',
            "@JMSConnectionFactoryDefinition",
            "connectionfactory.NAME = URL",
        ),
        ('void f(@JMSConnectionFactory("cf") JMSContext c) {}', "@JMSConnectionFactory", "createContext"),
        ('@Inject @JMSConnectionFactory("cf") JMSContext context;', "@Inject", "createContext"),
        ("@Inject void set(@JMSSessionMode(1) JMSContext c) {}", "@JMSSessionMode", "createContext"),
    ],
)
def test_the_advice_on_an_annotation_of_jms_says_what_takes_its_place(
    members: str, annotation: str, advice: str
) -> None:
    found = [each for each in ported(members).findings if each.what.startswith(f"the annotation {annotation}")]
    assert found
    assert all(advice in each.advice for each in found)
