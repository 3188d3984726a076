"""How the tests start a JVM."""

from __future__ import annotations

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For short programs of which each line runs a few times: compiling them well costs more than it brings."""
