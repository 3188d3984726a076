"""Contract tests for providers: the contract of `pyjms.spi.provider`, tested on any implementation, through the SPI
alone.

A provider's own tests run them so:

    pytest.register_assert_rewrite("pyjms_tck.spi")
    from pyjms_tck.spi.suite import *

    @pytest.fixture
    def provider_url(): ...  # the URL of a message system without messages
"""
