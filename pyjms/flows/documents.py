"""Definitions and instances as JSON, and back. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pyjms.flows.definition import Flow, Step
from pyjms.flows.instance import Instance, Note, Status

__all__ = ["read_flow_document", "read_instance", "write_flow_document", "write_instance"]


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
    return json.dumps(asdict(instance) | {"status": instance.status.value})


def read_instance(text: str) -> Instance:
    """Return what `write_instance` was given."""
    values: dict[str, Any] = json.loads(text)
    status = Status(values.pop("status"))
    story = tuple(Note(**note) for note in values.pop("story"))
    return Instance(status=status, story=story, **values)
