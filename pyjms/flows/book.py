"""The former place of `pyjms.flows.repository`, which the entry points of earlier installations name, until 0.3."""

from __future__ import annotations

from pyjms.flows.repository import FlowRepositoryOpener as FlowBookOpener

__all__ = ["FlowBookOpener"]
