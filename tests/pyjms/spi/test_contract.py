"""The contract tests, run on the bundled provider, on the example of the authors' guide, and through `Faults`.

`conftest.py` has the fixture `provider_url`.
"""

from tests.pyjms.spi.contract.suite import *  # noqa: F403
