"""The profile of a member of a cluster that leads nothing; see `stomp_profile.py`."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType

_spec = spec_from_file_location("stomp_profile", Path(__file__).with_name("stomp_profile.py"))
assert _spec is not None
assert _spec.loader is not None
_module = module_from_spec(_spec)
_spec.loader.exec_module(_module)


class ClusterProfile(_module.StompProfile):  # type: ignore[misc, name-defined]  # a file beside this one
    """A restart is one of both members, and nothing is lost."""

    title = "pyjms brokers of a cluster, at a member that leads nothing"
    something_ms = 30_000  # after a restart all shards get a leader first
    unsupported = MappingProxyType({})
