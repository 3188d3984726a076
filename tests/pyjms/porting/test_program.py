"""Programs of several files and packages, names, comments, and the tables that all of it rests on."""

from __future__ import annotations

import json
import re
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pyjms.porting.program import port
from pyjms.porting.types import LIBRARY_TYPES
from tests.pyjms.porting.running import imported, modules_from
from tests.tidy.source import ROOT

SOURCES = {
    "src/shop/orders/Order.java": """package shop.orders;
import shop.Registry;
public class Order extends Numbered {
    public static final int MOST = 10;
    private final String what;
    public Order(String what) { super(Registry.next()); this.what = what; }
    public String getWhat() { return what; }
    public String toString() { return getNumber() + ": " + what; }
}
""",
    "src/shop/orders/Numbered.java": """package shop.orders;
public abstract class Numbered {
    private final int number;
    protected Numbered(int number) { this.number = number; }
    public int getNumber() { return number; }
}
""",
    "src/shop/Registry.java": """package shop;
import java.util.ArrayList;
import java.util.List;
import shop.orders.*;
public class Registry {
    private static int last = 0;
    static final List<Order> ALL = new ArrayList<>();
    public static int next() { return ++last; }
    static class Lost extends RuntimeException {
        Lost(String message) { super(message); }
    }
    static Order find(int number) {
        for (Order each : ALL) { if (each.getNumber() == number) return each; }
        throw new Lost("no order " + number);
    }
}
""",
    "src/shop/Main.java": """package shop;
import shop.orders.Order;
public class Main {
    public static void main(String[] args) {
        Registry.ALL.add(new Order("espresso"));
        Registry.ALL.add(new Order("cake"));
        System.out.println(Registry.ALL + " " + Order.MOST + " " + Registry.find(2).getWhat());
        try {
            Registry.find(3);
        } catch (Registry.Lost e) {
            System.out.println(e);
        }
    }
}
""",
}


def test_files_become_modules_that_find_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = port(SOURCES)
    assert [each.findings for each in made] == [[], [], [], []]
    assert next(each.module for each in made) == ("shop", "orders", "Order")
    for each in made:
        place = tmp_path.joinpath(*each.module).with_suffix(".py")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(each.python, encoding="utf-8")
    with modules_from(tmp_path):
        import_module("shop.Main").Main.main([])
    assert capsys.readouterr().out == ("[1: espresso, 2: cake] 10 cake\nshop.Registry$Lost: no order 3\n")


def test_two_programs_with_a_class_of_one_name_are_told() -> None:
    first, second = port(
        {
            "a/A.java": "class A {} class L { int a; }",
            "b/B.java": "class B { int f() { return new L().b; } } class L { int b; }",
        }
    )
    assert first.findings == []
    assert [each.what for each in second.findings] == ["L is in a/A.java, too"]
    assert second.translated == second.statements


def test_names_that_mean_something_in_python_get_an_underscore() -> None:
    source = (
        "class Names { int lambda; private int is; static int sum(int list, int self, int None, int java) {"
        " int print = list + self + None + java; return print; } int is() { return is + lambda; } void pass() {} }"
    )
    (made,) = port({"Names.java": source})
    assert made.findings == []
    for part in (
        "def sum(list_, self_, None_, java_)",
        "print_ = ",
        "def is_(self)",
        "def pass_(self)",
        "self.lambda_",
    ):
        assert part in made.python


def test_comments_stay_where_they_are() -> None:
    source = """// licence
package p;

/**
 * A class.
 *
 * <p>More.
 */
class C {
    // a constant
    static final int N = 3;

    /** Does it. */
    void f() {
        // before
        int n = 1; // beside

        /* several
           lines */
        n++;
    }
}
"""
    (made,) = port({"C.java": source})
    assert (
        made.python
        == '''"""C.java, ported from Java by pyjms port."""

# licence


# A class.
#
# <p>More.
class C:
    # a constant
    N = 3

    # Does it.
    def f(self):
        # before
        n = 1  # beside

        # several
        #    lines
        n += 1
'''
    )


def test_the_page_shows_what_comes_of_its_example() -> None:
    page = (ROOT / "docs" / "how-to" / "porting-assistant.md").read_text(encoding="utf-8")
    source, python = (page.partition(f"```{name}\n")[2].partition("```")[0] for name in ("java", "python"))
    (made,) = port({"Counting.java": source})
    assert made.python == python
    told = [line.split("  ")[0] for line in page.partition("line  kind")[2].partition("```")[0].splitlines()[1:]]
    assert [str(each.line) for each in made.findings] == told


def test_inner_classes_with_several_constructors_know_the_object_around(tmp_path: Path) -> None:
    source = """class Shop {
    int tables = 4;
    class Order {
        final int n;
        Order(int n) { this.n = n; }
        Order() { this(3); }
        int all() { return n * tables; }
    }
    static int run() { Shop shop = new Shop(); return shop.one() + shop.new Order(10).all(); }
    int one() { return new Order().all(); }
}
"""
    (made,) = port({"Shop.java": source})
    assert made.findings == []
    assert imported(tmp_path, "Shop", made.python).Shop.run() == 52


def test_jakarta_is_javax() -> None:
    (made,) = port(
        {
            "J.java": "import jakarta.jms.*; class J { void f(Connection c) throws JMSException { c.createSession().close(); } }"
        }
    )
    assert made.findings == []
    assert "c.createSession().close()" in made.python


def test_the_table_of_jms_is_that_of_the_specification() -> None:
    kinds: dict[str, tuple[str, list[str], list[str]]] = {}
    for version in ("jms11", "jms20"):
        data: dict[str, Any] = json.loads((ROOT / f"tests/data/spec/{version}-api.json").read_text(encoding="utf-8"))
        for kind in data["types"]:
            # An annotation is no type of a value: what is said of it is tested by name.
            if kind["kind"] == "annotation":
                continue
            _, above, lines = kinds.setdefault(kind["name"], (kind["kind"], [], []))
            above += kind.get("extends", kind.get("extends_added")) or []
            lines += [f"  {each['type']} {each['name']}" for each in kind["constants"]]
            lines += [f"  new({', '.join(p['type'] for p in each['params'])})" for each in kind["constructors"]]
            lines += [
                f"  {each['returns']} {method['java']}({', '.join(p['type'] for p in each['params'])})"
                for method in kind["methods"]
                for each in method["overloads"]
            ]
    wanted = []
    for name, (word, above, lines) in sorted(kinds.items()):
        supers = f" < {', '.join(above)}" if above else ""
        wanted += [f"{word} {name}{supers}", *lines]
    table = files("pyjms.porting").joinpath("tables", "jms.txt").read_text(encoding="utf-8").replace("$T", "T")
    assert [line.partition(" = ")[0] for line in table.splitlines() if line and not line.startswith("#")] == wanted


def test_what_the_tables_call_of_java_is_there() -> None:
    from pyjms.porting import java

    templates = [each.template or "" for kind in LIBRARY_TYPES.values() for each in kind.members]
    called = {word for text in templates for word in re.findall(r"java\.(\w+)", re.sub(r'"[^"]*"', "", text))}
    assert called
    assert called <= set(java.__all__)
    assert [name for name in java.__all__ if not hasattr(java, name)] == []
