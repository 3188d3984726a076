"""How the properties of messages are tried: many short examples, on a machine that may be busy with other tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("messages", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("messages")
