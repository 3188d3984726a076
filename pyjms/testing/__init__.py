"""For the tests of applications: a broker of one's own, a clock that obeys, and failures on demand.

The broker is the bundled one, not an imitation, so what passes here passes there. Fixtures for pytest are in
`pyjms.testing.plugin`, which pytest finds by itself where ``pyjms`` is installed.
"""

from pyjms.testing.clock import VirtualClock
from pyjms.testing.cluster import Cluster, ClusterMember, MissingBrokerError
from pyjms.testing.faults import Fault, Faults
from pyjms.testing.postgresql import MissingPostgresqlError, PostgresqlServer

__all__ = [
    "Cluster",
    "ClusterMember",
    "Fault",
    "Faults",
    "MissingBrokerError",
    "MissingPostgresqlError",
    "PostgresqlServer",
    "VirtualClock",
]
