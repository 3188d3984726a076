"""Configuration stores in SQL databases."""

from __future__ import annotations

from pyjms_provider.stores.sql.configuration.store import SqlConfigurationStore

__all__ = ["SqlConfigurationStore"]
