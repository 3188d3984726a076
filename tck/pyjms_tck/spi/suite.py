"""The tests of the contract, in the order of its parts. `tests.pyjms.spi.contract` says how a provider runs them."""

from tests.pyjms.spi.contract.closing_suite import *  # noqa: F403  pytest finds tests in the namespace of a module
from tests.pyjms.spi.contract.connecting_suite import *  # noqa: F403
from tests.pyjms.spi.contract.delivery_suite import *  # noqa: F403
from tests.pyjms.spi.contract.notifying_suite import *  # noqa: F403
