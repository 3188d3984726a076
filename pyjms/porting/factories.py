"""The connection factories of providers: which URL their URL becomes."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from tree_sitter import Node

from pyjms.porting.arguments import given
from pyjms.porting.class_codes import PROVIDERS
from pyjms.porting.codes import quoted
from pyjms.porting.model import STRING, Expr, Type, Unportable
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.unit import Unit

_WANTED: Final = {f"javax.jms.{name}": name for name in PROVIDERS.values()}
_HARMLESS: Final = {"broker.persistent=false", "broker.usejmx=false", "create=true"}
_HOST: Final = re.compile(r"(?:tcp|nio|amqp|ssl|amqps|core|netty)://(?P<host>[\w.-]+|\[[\w:]+\])")
_DEFAULT: Final = "tcp://localhost:61616"


def connection_factory(unit: Unit, node: Node, name: str, target: Type | None) -> Expr:
    """Return the factory of pyjms that takes the place of a provider's."""
    simple = name.rpartition(".")[2]
    kind = _WANTED.get(target.name if target else "", PROVIDERS[simple])
    arguments = given(unit, needed(node, "arguments"))
    if any(each.type != STRING and each.type.name != "null" for each in arguments):
        raise Unportable(node, f"new {simple} with other arguments than texts", "pyjms.ConnectionFactory(url)")
    codes = [each.as_type(unit, STRING).code for each in arguments]
    options = ""
    if len(codes) in {2, 3}:
        user, password = (codes[1:] if len(codes) == 3 and "qpid" in unit.find_class(name, node) else codes)[:2]
        options = f", user_name={user}, password={password}"
    url = codes[0] if len(codes) == 1 else codes[-1] if len(codes) == 3 else quoted(_DEFAULT)
    code = f"{kind}({_url(unit, node, url)}{options})"
    return Expr(
        code, Type("pyjms.AnyXAConnectionFactory" if "XA" in kind else "pyjms.AnyConnectionFactory"), known=True
    )


def _constant(unit: Unit, node: Node, code: str) -> str:
    """Return the text that a constant of the program stands for."""
    nodes = children(needed(node, "arguments"))
    for each in nodes:
        if each.type == "identifier" and unit.scope is not None:
            field = unit.find_field(unit.scope.info, text_of(each))
            value = child(field.declarator, "value") if field is not None else None
            if (
                field is not None
                and field.is_final
                and field.is_static
                and value is not None
                and value.type == "string_literal"
                and code.endswith(f".{field.python}")
            ):
                return text_of(value)
    return code


def _url(unit: Unit, node: Node, code: str) -> str:
    """Return the URL for pyjms, where it can be told from the one of the provider."""
    code = _constant(unit, node, code)
    if not (code.startswith('"') and code.endswith('"')):
        unit.check(
            node, "the URL of the broker", "give a URL of pyjms: stomp://HOST:61613, or vm://NAME in this process"
        )
        return code
    url = code[1:-1]
    if url.startswith("vm://"):
        parts = urlsplit(url)
        options = [each for each in parts.query.split("&") if each]
        if "broker.persistent=false" not in [each.lower() for each in options]:
            unit.check(
                node,
                f"the broker {url}",
                "ActiveMQ's keeps messages on the disk; vm:// of pyjms does with ?store=sqlite:///FILE",
            )
        elif any(each.lower() not in _HARMLESS for each in options):
            unit.check(node, f"the options of {url}", "they are ActiveMQ's: docs/how-to/stomp.md has those of pyjms")
        return quoted(f"vm://{parts.netloc}")
    found = _HOST.search(url)
    made = (
        f"{'stomps' if 'ssl' in url or 'amqps' in url else 'stomp'}://{found['host'] if found else 'localhost'}:61613"
    )
    unit.check(
        node,
        f"the broker {url}",
        f"it became {made}: see that it is the broker's STOMP port, and that options and further hosts are right "
        "(docs/how-to/stomp.md)",
    )
    return quoted(made)
