"""The tests of the contract, in the order of its parts. `pyjms_tck.spi` says how a provider runs them."""

from pyjms_tck.spi.branch_suite import *  # noqa: F403  pytest finds tests in the namespace of a module
from pyjms_tck.spi.closing_suite import *  # noqa: F403
from pyjms_tck.spi.connecting_suite import *  # noqa: F403
from pyjms_tck.spi.delivery_suite import *  # noqa: F403
from pyjms_tck.spi.notifying_suite import *  # noqa: F403
from pyjms_tck.spi.pipeline_suite import *  # noqa: F403
from pyjms_tck.spi.refusing_suite import *  # noqa: F403
from pyjms_tck.spi.session_suite import *  # noqa: F403
from pyjms_tck.spi.sharing_suite import *  # noqa: F403
