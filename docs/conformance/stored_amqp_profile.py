"""The profile of the pyjms broker over AMQP 1.0, a process of its own with a store; see `stomp_profile.py`."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType

_spec = spec_from_file_location("stomp_profile", Path(__file__).with_name("stomp_profile.py"))
assert _spec is not None
assert _spec.loader is not None
_module = module_from_spec(_spec)
_spec.loader.exec_module(_module)


class StoredAmqpProfile(_module.StompProfile):  # type: ignore[misc, name-defined]  # a file beside this one
    """It is started and ended as over STOMP, and nothing is lost."""

    title = "pyjms broker over AMQP 1.0, with SQLite"
    unsupported = MappingProxyType({})
