"""What tests have configuration stores keep."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from pyjms_provider.model.configuration.contract import ObjectId, ObjectRecord

_SPACE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def make(name: str, category: str, parent: ObjectRecord | None = None, **attributes: Any) -> ObjectRecord:
    return ObjectRecord(
        id=ObjectId(uuid5(_SPACE, f"{category}/{name}")),
        category=category,
        parent=None if parent is None else parent.id,
        attributes={"name": name, **attributes},
        created_by="me",
        created_ms=1,
        updated_by="you",
        updated_ms=2,
    )


BROKER = make("shop", "broker", description="Größe ∞", context={"a": "b"})
PORT = make("stomp", "port", BROKER, port="${p}", protocols=["stomp"], tls={"versions": ["1.3"], "deep": [{"x": 1}]})
USERS = make("people", "authentication_provider", BROKER, type="file")
ADMIN = make("admin", "user", USERS, password="pyjms-secret:1:abc")
