"""The contract tests, run on the bundled provider, on the example of the authors' guide, and through `Faults`.

`conftest.py` has the fixture `provider_url`. The requirements that a test shows stand here and not beside it: they are
those of this project, and not of other providers.
"""

import pytest

from pyjms_tck.spi import closing_suite, delivery_suite, notifying_suite
from pyjms_tck.spi.suite import *  # noqa: F403

pytest.mark.realises("BOIL-SESS-7", "BOIL-CONN-15")(closing_suite.test_what_is_closed_refuses_all_other_calls)
pytest.mark.realises("BOIL-ORD-1")(delivery_suite.test_messages_of_a_session_arrive_in_order)
pytest.mark.realises("BOIL-ORD-2")(delivery_suite.test_higher_priorities_overtake_within_each_the_order_stays)
pytest.mark.realises("BOIL-ACK-7")(delivery_suite.test_what_is_acknowledged_never_comes_again)
pytest.mark.realises("BOIL-ACK-5", "BOIL-ACK-6")(
    delivery_suite.test_what_is_recovered_comes_again_in_its_old_place_and_marked
)
pytest.mark.realises("BOIL-CONN-5")(notifying_suite.test_a_stopped_connection_keeps_its_messages)
pytest.mark.realises("QCM-2", "QCM-4")(notifying_suite.test_who_becomes_interested_is_told_of_what_is_there)
pytest.mark.realises("QCM-2")(notifying_suite.test_who_is_interested_is_told_of_what_comes)
pytest.mark.realises("QCM-34")(notifying_suite.test_who_is_told_and_does_not_pull_hands_the_wake_up_on)
pytest.mark.realises("QCM-11")(notifying_suite.test_no_wake_up_is_lost_between_threads)
pytest.mark.realises("BOIL-CONC-1", "BOIL-ACK-8")(
    notifying_suite.test_many_threads_share_a_queue_and_each_message_comes_once
)
