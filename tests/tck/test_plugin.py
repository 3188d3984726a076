"""The suite as pytest runs it for authors: ``pytest --pyargs pyjms_tck --jms-url URL``."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from pyjms_tck.catalogue import load_catalogue

if TYPE_CHECKING:
    from typing import Protocol

    class Run(Protocol):
        def __call__(self, text: str, *arguments: str) -> pytest.RunResult: ...


TESTABLE = [one.id for one in load_catalogue().requirements.values() if one.testable and not one.feature]
UNTESTABLE = next(one.id for one in load_catalogue().requirements.values() if not one.testable)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Run a small suite."""

    def run(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile("import pytest\nfrom pyjms_tck.requirements import needs, requirement\n" + dedent(text))
        return pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:cacheprovider", "-rs", *arguments)

    return run


def test_the_suite_itself_is_run(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        *("--pyargs", "pyjms_tck", "--jms-url", "vm://plugin", "--jms-select", "3.4.1", "-p", "no:randomly", "-q")
    )
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["passed"] >= 1


def test_fixtures_give_what_their_names_say(run: Run) -> None:
    result = run(
        f"""
        @requirement("{TESTABLE[0]}")
        def test_objects(factory, connect, connection, session, make_session, make_factory, queue, topic, make_queue,
                         make_topic, make_name, profile, waits, record, background, environment):
            from pyjms import ConnectionFactory, Session, QueueConnectionFactory
            assert isinstance(factory, ConnectionFactory)
            assert connection.client_id is None
            assert connect(client_id="clerk", started=True).client_id == "clerk"
            assert session.acknowledge_mode == Session.AUTO_ACKNOWLEDGE
            assert make_session(True).transacted
            assert make_session(mode=Session.CLIENT_ACKNOWLEDGE).acknowledge_mode == Session.CLIENT_ACKNOWLEDGE
            assert isinstance(make_factory(QueueConnectionFactory, client_id="x"), QueueConnectionFactory)
            assert len({{queue.queue_name, make_queue().queue_name, make_queue().queue_name}}) == 3
            assert len({{topic.topic_name, make_topic().topic_name}}) == 2
            assert make_name("a") != make_name("a")
            assert (waits.something_ms, waits.nothing_ms) == (10_000, 50)
            record("this and that")
            consumer = session.create_consumer(queue)
            running = background(consumer.receive)
            other = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
            other.create_producer(queue).send(other.create_text_message("news"))
            assert running.result().text == "news"

        left = []

        @requirement("{TESTABLE[0]}")
        def test_opens(connect):
            left.append(connect())

        @requirement("{TESTABLE[0]}")
        def test_what_was_opened_is_closed():
            import pyjms
            with pytest.raises(pyjms.IllegalStateException):
                left[0].start()
        """,
        *("--jms-url", "vm://plugin"),
    )
    result.assert_outcomes(passed=3)


def test_destinations_are_made_and_deleted_by_the_profile(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        profile="""
        from pyjms_tck.profile import Profile

        class Mine(Profile):
            done = []
            def create_queue(self, name): self.done.append("made"); return "q." + name
            def delete_queue(self, name): self.done.append("deleted " + name[:2])
            def create_topic(self, name): return "t." + name
            def restart_broker(self): self.done.append("restarted")
        """
    )
    result = run(
        f"""
        @requirement("{TESTABLE[0]}")
        def test_one(queue, topic, restart_broker):
            assert queue.queue_name.startswith("q.tck_queue")
            assert topic.topic_name.startswith("t.tck_topic")
            restart_broker()

        @requirement("{TESTABLE[0]}")
        def test_two(profile):
            assert profile.done == ["made", "restarted", "deleted q."]
        """,
        *("--jms-url", "vm://plugin", "--jms-profile", "profile.py"),
    )
    result.assert_outcomes(passed=2)


def test_what_is_not_supported_is_skipped_with_the_reason(run: Run) -> None:
    result = run(
        f"""
        @needs("XA")
        @requirement("{TESTABLE[0]}")
        def test_xa(): 1 / 0

        @requirement("{TESTABLE[0]}")
        def test_restart(restart_broker): 1 / 0

        @requirement("{TESTABLE[0]}")
        def test_refusal(wrong_credentials): 1 / 0

        @requirement("{TESTABLE[0]}")
        @pytest.mark.parametrize("what", ["plain", pytest.param("special", marks=needs("XA"))])
        def test_both(what): assert what == "plain"
        """,
        *("--jms-url", "vm://plugin"),
    )
    result.assert_outcomes(passed=1, skipped=4)
    result.stdout.fnmatch_lines_random(
        [
            "*not supported: the provider does not declare XA",
            "*not supported: the profile cannot restart the broker",
            "*not supported: the profile names no credentials that the provider refuses (wrong_credentials)",
        ]
    )


def test_a_test_that_skips_itself_has_failed(run: Run) -> None:
    result = run(
        f"""
        @pytest.fixture
        def doubtful(): pytest.skip("not supported: it said later")

        @requirement("{TESTABLE[0]}")
        def test_setup(doubtful): pass

        @requirement("{TESTABLE[0]}")
        def test_call(): pytest.skip("not supported: it said later")
        """,
        *("--jms-url", "vm://plugin"),
    )
    result.assert_outcomes(failed=1, errors=1)


def test_the_url_is_there_for_the_profile(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(profile="from pyjms_tck.profile import Profile\nclass Mine(Profile): pass\n")
    result = run(
        f"""
        @requirement("{TESTABLE[0]}")
        def test_it(profile): assert profile.url == "vm://plugin"
        """,
        *("--jms-url", "vm://plugin", "--jms-profile", "profile.py"),
    )
    result.assert_outcomes(passed=1)


def test_a_selection_leaves_the_rest_out(run: Run) -> None:
    text = f"""
        @requirement("{TESTABLE[0]}")
        def test_a(): pass

        @requirement("{TESTABLE[1]}", "{TESTABLE[2]}")
        def test_b(): pass

        def test_of_something_else(): pass
        """
    run(text, "--jms-url", "vm://plugin", "--jms-select", TESTABLE[2]).assert_outcomes(passed=2, deselected=1)


def test_a_test_that_hangs_has_its_limit(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(profile="from pyjms_tck.profile import Profile\nclass Mine(Profile):\n    limit_s = 0.5\n")
    result = run(
        f"""
        import threading

        @requirement("{TESTABLE[0]}")
        def test_hangs(): threading.Event().wait()
        """,
        *("--jms-url", "vm://plugin", "--jms-profile", "profile.py", "-o", "timeout_method=signal"),
    )
    result.assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        (f'@requirement("{TESTABLE[0]}")\ndef test_x(): pass', [], "*conformance tests need a provider*--jms-url*"),
        (
            '@requirement("1-zz")\ndef test_x(): pass',
            ["--jms-url", "vm://x"],
            "*requirement 1-zz is not in the catalogue",
        ),
        (f'@requirement("{UNTESTABLE}")\ndef test_x(): pass', ["--jms-url", "vm://x"], "*is not testable"),
        (
            f'@needs("TEA")\n@requirement("{TESTABLE[0]}")\ndef test_x(): pass',
            ["--jms-url", "vm://x"],
            "*TEA is no member*",
        ),
        (
            f'@requirement("{TESTABLE[0]}")\ndef test_x(): pass',
            ["--jms-url", "nowhere://x"],
            "*no provider is installed*",
        ),
        (
            "def test_x(): pass",
            ["--jms-url", "vm://x", "--jms-profile", "missing.py"],
            "*missing.py is no Python file*",
        ),
        (
            f'@requirement("{TESTABLE[0]}")\ndef test_x(): pass',
            ["--jms-url", "vm://x", "--jms-select", "99"],
            "*nothing is selected by '99'*",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_runs(run: Run, text: str, arguments: list[str], told: str) -> None:
    result = run(text, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])


def test_other_projects_do_not_notice_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            loaded = {name for name in sys.modules if name.startswith("pyjms_tck")}
            assert loaded <= {"pyjms_tck", "pyjms_tck.plugin"}
        """
    )
    result = pytester.runpytest_subprocess("--strict-markers")
    result.assert_outcomes(passed=1)
    fixtures = pytester.runpytest_subprocess("--fixtures")
    assert "make_queue" not in fixtures.stdout.str()
