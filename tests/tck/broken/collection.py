"""All mutants, and which requirements have a test."""

from __future__ import annotations

from tests.tck.broken.mutants import (
    bodies,
    closing,
    connections,
    conversions,
    domains,
    exceptions,
    finer,
    further,
    headers,
    properties,
    selectors,
    sending,
    servers,
    sessions,
    single,
)

__all__ = ["AREAS", "MUTANTS"]

AREAS = {
    "headers": headers.MUTANTS,
    "properties": properties.MUTANTS,
    "conversions": conversions.MUTANTS,
    "bodies": bodies.MUTANTS,
    "selectors": selectors.MUTANTS,
    "connections": connections.MUTANTS,
    "closing": closing.MUTANTS,
    "sessions": sessions.MUTANTS,
    "sending": sending.MUTANTS,
    "domains": domains.MUTANTS,
    "exceptions": exceptions.MUTANTS,
    "servers": servers.MUTANTS,
    "further": further.MUTANTS,
    "finer": finer.MUTANTS,
    "single": single.MUTANTS,
}
"""The mutants by what they break."""
MUTANTS = tuple(each for mutants in AREAS.values() for each in mutants)
