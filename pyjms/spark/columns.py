"""The columns of ``format("jms")``: names and Spark's types. docs/reference/spark.md says what each holds."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COLUMNS", "DEDUP_ID", "SCHEMA", "SINK_COLUMNS"]

COLUMNS: Mapping[str, str] = {
    "destination": "string",
    "seq": "bigint",
    "message_id": "string",
    "correlation_id": "string",
    "reply_to": "string",
    "type": "string",
    "delivery_mode": "string",
    "priority": "tinyint",
    "timestamp": "timestamp",
    "expiration": "timestamp",
    "redelivered": "boolean",
    "delivery_count": "int",
    "kind": "string",
    "text": "string",
    "bytes": "binary",
    "body": "string",
    "properties": "map<string,string>",
    "property_types": "map<string,string>",
}
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())

DEDUP_ID = "dedup_id"
"""A column that the sink takes, too: by it a broker that knows duplicates drops them."""

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
SINK_COLUMNS: Mapping[str, frozenset[str]] = {
    **{name: _WHOLE if kind in _WHOLE else frozenset({kind}) for name, kind in COLUMNS.items()},
    DEDUP_ID: frozenset({"string"}),
}
"""What the sink takes, and the types of each."""
