"""The fixtures, as the tests of an application use them: each run here is a pytest of its own."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from pyjms.testing import plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    RunTests = Callable[..., pytest.RunResult]

APPLICATION = '''
"""An application: it works off orders, and sends a bill for each."""


def place(session, text, time_to_live=0):
    producer = session.create_producer(session.create_queue("orders"))
    producer.time_to_live = time_to_live
    producer.send(session.create_text_message(text))


def work_off(session):
    consumer = session.create_consumer(session.create_queue("orders"))
    bills = session.create_producer(session.create_queue("bills"))
    done = []
    while (order := consumer.receive_no_wait()) is not None:
        bills.send(session.create_text_message(order.text))
        done.append(order.text)
    return done
'''


@pytest.fixture
def run_tests(pytester: pytest.Pytester) -> RunTests:
    """Return what runs the tests of the application and expects their outcomes."""

    def run(source: str, **outcomes: int) -> pytest.RunResult:
        pytester.makepyfile(application=APPLICATION)
        pytester.makepyfile(test_application="from application import place, work_off\n" + dedent(source))
        result = pytester.runpytest_subprocess("-p", "no:randomly", "-W", "error", "-q")
        result.assert_outcomes(**outcomes)
        return result

    return run


def test_each_test_has_a_broker_of_its_own(run_tests: RunTests) -> None:
    run_tests(
        """
        import pytest

        @pytest.mark.parametrize("run", range(3))
        def test_orders_are_worked_off(jms_session, run):
            place(jms_session, "espresso")
            assert work_off(jms_session) == ["espresso"]

        def test_there_is_nothing_to_do(jms_session):
            assert work_off(jms_session) == []

        urls = []

        @pytest.mark.parametrize("run", range(2))
        def test_urls_differ(jms_broker_url, run):
            assert jms_broker_url not in urls
            urls.append(jms_broker_url)
        """,
        passed=6,
    )


def test_the_broker_is_stopped_after_its_test(run_tests: RunTests) -> None:
    run_tests(
        """
        import pytest
        from pyjms import ConnectionFactory, JMSException, Session

        left = []

        def test_it_forgets_to_close(jms_broker_url):
            connection = ConnectionFactory(jms_broker_url).create_connection()
            left.append((connection, jms_broker_url))
            place(connection.create_session(False, Session.AUTO_ACKNOWLEDGE), "stale")

        def test_nothing_is_left():
            connection, url = left[0]
            with pytest.raises(JMSException):
                connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            with ConnectionFactory(url).create_connection() as fresh:
                fresh.start()
                assert work_off(fresh.create_session(False, Session.AUTO_ACKNOWLEDGE)) == []
        """,
        passed=2,
    )


def test_the_fixtures_belong_together(run_tests: RunTests) -> None:
    run_tests(
        """
        from pyjms import Session

        def test_one_broker_a_test(jms_session, jms_connection, jms_connection_factory, jms_broker_url):
            place(jms_session, "espresso")
            with jms_connection_factory.create_connection() as other:
                other.start()
                assert work_off(other.create_session(False, Session.AUTO_ACKNOWLEDGE)) == ["espresso"]
            assert jms_session.acknowledge_mode == Session.AUTO_ACKNOWLEDGE
            assert jms_broker_url.startswith("vm://")
            assert jms_connection.create_session().create_queue("x").queue_name == "x"
        """,
        passed=1,
    )


def test_an_application_travels_in_virtual_time(run_tests: RunTests) -> None:
    run_tests(
        """
        import pytest

        @pytest.mark.parametrize(("days", "done"), [(0, ["espresso"]), (6, ["espresso"]), (8, [])])
        def test_orders_are_kept_for_a_week(jms_session, virtual_clock, days, done):
            place(jms_session, "espresso", time_to_live=7 * 86_400_000)
            virtual_clock.advance(days * 86_400_000)
            assert work_off(jms_session) == done

        def test_the_clock_may_come_first(virtual_clock, jms_session):
            place(jms_session, "espresso", time_to_live=1)
            virtual_clock.advance(1)
            assert work_off(jms_session) == []
        """,
        passed=4,
    )


def test_an_application_travels_in_frozen_time(run_tests: RunTests) -> None:
    run_tests(
        """
        from datetime import datetime
        from threading import Event

        from freezegun import freeze_time

        def test_orders_are_kept_for_a_week(jms_session):
            with freeze_time("2030-05-06 07:08:09") as frozen:
                place(jms_session, "espresso", time_to_live=7 * 86_400_000)
                frozen.tick(6 * 86_400)
                place(jms_session, "tea", time_to_live=7 * 86_400_000)
                frozen.tick(2 * 86_400)
                assert work_off(jms_session) == ["tea"]

        @freeze_time("2030-05-06 07:08:09")
        def test_messages_have_the_frozen_time_and_a_receive_ends(jms_session):
            place(jms_session, "espresso")
            consumer = jms_session.create_consumer(jms_session.create_queue("orders"))
            order = consumer.receive(1000)
            assert datetime.fromtimestamp(order.jms_timestamp / 1000) == datetime.now()
            assert consumer.receive(20) is None

        def test_listeners_live_in_frozen_time_too(jms_connection, jms_connection_factory):
            with freeze_time("2030-05-06") as frozen, jms_connection_factory.create_connection() as other:
                place(other.create_session(), "stale", time_to_live=3_600_000)
                frozen.tick(3601)
                place(other.create_session(), "fresh", time_to_live=3_600_000)
                heard, done = [], Event()
                session = jms_connection.create_session()
                consumer = session.create_consumer(session.create_queue("orders"))
                consumer.message_listener = lambda order: (heard.append(order.text), done.set())
                assert done.wait(20)
                assert heard == ["fresh"]
        """,
        passed=3,
    )


def test_an_application_meets_failures(run_tests: RunTests) -> None:
    run_tests(
        """
        import pytest
        from pyjms import JMSException, ResourceAllocationException, Session
        from pyjms.testing import Fault

        def test_a_bill_that_cannot_be_sent(jms_session, jms_faults):
            place(jms_session, "espresso")
            jms_faults.inject(Fault.SEND_REFUSED)
            with pytest.raises(ResourceAllocationException):
                work_off(jms_session)

        def test_a_connection_that_drops(jms_faults, virtual_clock, jms_session, jms_connection_factory):
            place(jms_session, "espresso", time_to_live=1000)
            jms_faults.drop_connections()
            with pytest.raises(JMSException):
                work_off(jms_session)
            with jms_connection_factory.create_connection() as again:
                again.start()
                assert work_off(again.create_session(False, Session.AUTO_ACKNOWLEDGE)) == ["espresso"]

        def test_no_failure_is_left(jms_session, jms_faults):
            place(jms_session, "espresso")
            assert work_off(jms_session) == ["espresso"]
        """,
        passed=3,
    )


def test_a_failing_test_leaves_no_thread_behind(run_tests: RunTests) -> None:
    result = run_tests(
        """
        import threading

        def test_it_fails(jms_connection):
            session = jms_connection.create_session()
            session.create_consumer(session.create_queue("orders")).message_listener = print
            assert [thread for thread in threading.enumerate() if thread.name.startswith("pyjms-session")]
            raise AssertionError("as it should")

        def test_its_listener_has_ended():
            assert [thread for thread in threading.enumerate() if thread.name.startswith("pyjms-session")] == []
        """,
        failed=1,
        passed=1,
    )
    result.stdout.fnmatch_lines(["*as it should*"])


def test_a_recorded_test_fails_when_a_guarantee_was_broken(run_tests: RunTests) -> None:
    result = run_tests(
        """
        from pyjms import ConnectionFactory

        def test_good(jms_session, jms_recording):
            place(jms_session, "espresso")
            assert work_off(jms_session) == ["espresso"]

        def test_bad(jms_broker_url, jms_session, jms_recording):
            with ConnectionFactory(jms_broker_url).create_connection() as other:  # which is not recorded
                place(other.create_session(), "tea")
            assert work_off(jms_session) == ["tea"]
        """,
        passed=2,
        errors=1,  # the fixture's, after the test
    )
    result.stdout.fnmatch_lines(["*was delivered from queue://orders, but nobody sent it*"])


def test_an_option_records_each_test_in_a_folder_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_one(jms_session): ...
        def test_two(jms_session): ...
        """
    )
    pytester.runpytest_subprocess("--jms-record", "recorded", "-p", "no:randomly", "-q").assert_outcomes(passed=2)
    folders = [path for path in (pytester.path / "recorded").iterdir() if list(path.glob("*.parquet"))]
    assert {path.name.rpartition("-")[2] for path in folders} == {"test_one", "test_two"}


def test_fixtures_are_listed_with_what_they_are_for(pytester: pytest.Pytester) -> None:
    listing = pytester.runpytest_subprocess("--fixtures", "-p", "no:randomly").stdout.str()
    for name in plugin.__all__:
        assert name in listing
        assert getattr(plugin, name).__doc__


def test_no_broker_is_there_where_none_is_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_the_plugin_alone_is_imported():
            assert "pyjms.testing.plugin" in sys.modules
            assert "pyjms_provider" not in sys.modules
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)
