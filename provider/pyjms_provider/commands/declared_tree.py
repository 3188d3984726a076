"""``pyjms broker tree``: categories, attributes, statistics and operations, from their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from pyjms.spi.terminal import escaped, listing, put_json
from pyjms_provider.commands.telling import errors_told, show

if TYPE_CHECKING:
    from pyjms_provider.model.attributes import AttributeDeclaration


def show_tree(
    category: Annotated[
        str | None, typer.Argument(help="Tell all of this category.", metavar="CATEGORY", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all declarations as JSON.")] = False,
) -> None:
    """Show what a broker consists of, and what can be configured: categories, and the attributes of each."""
    with errors_told():
        from pyjms_provider.model import tree
        from pyjms_provider.model.plugins import load_plugins

        load_plugins()
        wanted = [category] if category is not None else [each for each in tree.TREE if each != tree.ROOT]
        described = {each: _describe(each) for each in wanted}
    if as_json:
        put_json(described)
    elif category is not None:
        _show_category(category, described[category])
    else:
        show(escaped(tree.picture()))
        show("")
        table = listing("category", "attributes, without name, type, description, durable, context", whole={"category"})
        for name, each in described.items():
            common = {"name", "type", "description", "durable", "context"}
            own = dict.fromkeys(
                one for kind in each["types"].values() for one in kind["attributes"] if one not in common
            )
            table.add_row(f"[cyan]{name}[/]", ", ".join(own))
        show(table)
        show("\nAll of one category: [bold]pyjms broker tree CATEGORY[/]")


def _describe(category: str) -> dict[str, Any]:
    from pyjms_provider.model import tree
    from pyjms_provider.model.attributes import declarations
    from pyjms_provider.model.operations import operations_of, statistics_of

    shape = tree.shape_of(category)
    types = {}
    for name in tree.types_of(category):
        _, kind = tree.class_of(category, name)
        types[name] = {
            "attributes": {one: _attribute(each) for one, each in declarations(kind.attributes_class).items()},
            "statistics": {one: each.description for one, each in statistics_of(kind).items()},
            "operations": {one: each.description for one, each in operations_of(kind).items()},
        }
    return {"summary": shape.summary, "parent": shape.parent, "is_observed": shape.is_observed, "types": types}


def _attribute(declared: AttributeDeclaration) -> dict[str, Any]:
    definitions = declared.schema.get("$defs", {})
    return {
        "description": declared.description,
        "type": _type(declared.schema, definitions),
        "is_mandatory": declared.is_mandatory,
        "default": declared.default,
        "is_mutable": declared.is_mutable,
        "is_secure": declared.is_secure,
        "unit": declared.unit,
        "refers_to": declared.refers_to,
        "allowed": _listed(declared.schema, definitions) if declared.allowed is None else list(declared.allowed),
        "fields": _fields(declared.schema, definitions),
    }


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each, definitions) for each in schema["anyOf"] if each.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), definitions)}"
    return str(_followed(schema, definitions).get("type", "any"))


def _followed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema to which a schema refers, or itself."""
    found: Mapping[str, Any] = definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    return found


def _within(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of one value of a list or of a map, or of the value itself."""
    inner = schema.get("items") or schema.get("additionalProperties")
    return _followed(inner if isinstance(inner, Mapping) else schema, definitions)


def _listed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Any] | None:
    """Return the values allowed in a list, if they are known."""
    allowed = _within(schema, definitions).get("enum")
    return None if allowed is None else list(allowed)


def _fields(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the fields of each object of a list, by name; None: it is no list of objects."""
    inner = _within(schema, definitions)
    if "properties" not in inner:
        return None
    needed = inner.get("required", ())
    return {
        name: {"type": _type(each, definitions), "is_mandatory": name in needed}
        for name, each in inner["properties"].items()
    }


def _show_category(category: str, described: Mapping[str, Any]) -> None:
    kinds = [name for name in described["types"] if name]
    below = "" if described["parent"] is None else f", below {described['parent']}"
    show(f"[bold cyan]{category}[/]{below}: {escaped(described['summary'])}")
    if kinds:
        show(f"types: {', '.join(kinds)}")
    if described["is_observed"]:
        show("It comes by itself; nobody creates it.")
    seen: dict[str, Mapping[str, Any]] = {}
    for name, kind in described["types"].items():
        # Types of one category share most attributes; attributes shown for an earlier type are not shown again.
        new = {one: each for one, each in kind["attributes"].items() if seen.get(one) != each}
        seen |= new
        if new:
            show("")
            show(_attributes(f"attributes of {name}" if len(kinds) > 1 and name else "attributes", new))
    for what in ("statistics", "operations"):
        found = {one: text for kind in described["types"].values() for one, text in kind[what].items()}
        if found:
            table = listing(what, "", whole={what})
            for one, text in found.items():
                table.add_row(f"[cyan]{one}[/]", escaped(text))
            show("")
            show(table)


def _attributes(title: str, declared: Mapping[str, Mapping[str, Any]]) -> Table:
    table = listing(title, "type", "default", "", whole={title})
    for name, each in declared.items():
        allowed = f" ({', '.join(map(str, each['allowed']))})" if each["allowed"] and each["type"] != "boolean" else ""
        notes = ["mandatory"] if each["is_mandatory"] else []
        notes += [] if each["is_mutable"] else ["fixed once created"]
        notes += ["secret"] if each["is_secure"] else []
        text = each["description"] + (f" [{', '.join(notes)}]" if notes else "")
        default = "" if each["default"] is None else str(each["default"])
        unit = f" {each['unit']}" if each["unit"] else ""
        has = f" Each has {_words(each['fields'])}." if each["fields"] else ""
        table.add_row(f"[cyan]{name}[/]", escaped(each["type"] + unit), escaped(default), escaped(text + allowed + has))
    return table


def _words(fields: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the names of fields with their types, optional ones in brackets."""
    return ", ".join(
        f"{name} ({each['type']})" if each["is_mandatory"] else f"[{name}] ({each['type']})"
        for name, each in fields.items()
    )
