"""Definitions and instances as JSON, and back. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from pyjms.flows.definition import Flow, Step
from pyjms.flows.instance import Instance, Note, Status

_PLAIN = tuple(each.name for each in fields(Instance) if each.name not in {"data", "status", "story"})
"""What is a text or a number. `asdict` would copy all data, at any depth."""


def write_flow_document(flow: Flow) -> str:
    """Return JSON that is the same for equal definitions."""
    return json.dumps(asdict(flow), sort_keys=True)


def read_flow_document(text: str) -> Flow:
    """Return what `write_flow_document` was given."""
    values: dict[str, Any] = json.loads(text)
    steps = tuple(Step(**step) for step in values.pop("steps"))
    return Flow(steps=steps, **values)


def write_instance(instance: Instance) -> str:
    """Return JSON."""
    story = [
        {"time_ms": note.time_ms, "what": note.what, "step": note.step, "reason": note.reason}
        for note in instance.story
    ]
    values = {name: getattr(instance, name) for name in _PLAIN}
    return json.dumps(values | {"data": dict(instance.data), "status": instance.status.value, "story": story})


def read_instance(text: str) -> Instance:
    """Return what `write_instance` was given."""
    values: dict[str, Any] = json.loads(text)
    status = Status(values.pop("status"))
    story = tuple(Note(**note) for note in values.pop("story"))
    heard = tuple(values.pop("heard", ()))
    return Instance(status=status, story=story, heard=heard, **values)
