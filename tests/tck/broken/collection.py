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
    jms2_consumers,
    jms2_contexts,
    jms2_messages,
    jms2_producers,
    jms2_sending,
    jms2_sharing,
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
    "JMS 2.0: sharing": jms2_sharing.MUTANTS,
    "JMS 2.0: sending": jms2_sending.MUTANTS,
    "JMS 2.0: messages": jms2_messages.MUTANTS,
    "JMS 2.0: contexts": jms2_contexts.MUTANTS,
    "JMS 2.0: consumers": jms2_consumers.MUTANTS,
    "JMS 2.0: producers": jms2_producers.MUTANTS,
}
"""The mutants by what they break."""
MUTANTS = tuple(each for mutants in AREAS.values() for each in mutants)
