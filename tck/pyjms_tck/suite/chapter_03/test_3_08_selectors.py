"""JMS 1.1 §3.8: message selectors. Each requirement runs the vectors of ``data/selectors.json`` that are about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms import Connection, DeliveryMode, Queue, Session
from pyjms_tck.checks import Checks, expect
from pyjms_tck.environment import Environment, Waits
from pyjms_tck.fixtures import Record
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_03.selecting import INVALID, Selecting, vectors_of

Judge = Callable[[str], None]
_OUTCOMES = {True: "chooses the message", False: "does not choose the message", INVALID: "is refused"}


@pytest.fixture
def judge_all(
    environment: Environment, connection: Connection, make_queue: Callable[[], Queue]
) -> Callable[[list[Any]], None]:
    """Run vectors, and fail with all those whose outcome is another one."""

    def judge(vectors: list[Any]) -> None:
        selecting = Selecting(environment, connection, make_queue, vectors)
        with Checks() as check:
            for vector in vectors:
                what = f"{vector['id']} {vector['selector']!r} with {vector['properties']} {vector.get('headers', '')}"
                seen = _OUTCOMES[selecting.outcome(vector)]
                check.same(what.rstrip(), seen, _OUTCOMES[vector["expected"]])

    return judge


@pytest.fixture
def judge(judge_all: Callable[[list[Any]], None]) -> Judge:
    """Run the vectors of one assertion on which all brokers agree."""

    def judge_assertion(assertion: str) -> None:
        # Vectors on which brokers differ have tests of their own: 3.8.1.1-ag and 3.8.1.1-ah.
        judge_all(vectors_of(lambda vector: vector["portable"] and assertion in vector["assertions"]))

    return judge_assertion


@requirement("3.8.1.1-a")
def test_3_8_1_1_a_conditional_expressions_are_understood(judge: Judge) -> None:
    judge("JMS:SPEC:36")


@requirement("3.8.1.1-b")
def test_3_8_1_1_b_an_empty_selector_chooses_all(judge: Judge) -> None:
    judge("JMS:SPEC:37")


@requirement("3.8.1.1-c")
def test_3_8_1_1_c_a_consumer_gets_what_its_selector_chooses(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.create_producer(queue)
    for number in range(10):
        message = session.create_text_message(str(number))
        message.set_int_property("number", number)
        message.jms_type = "even" if number % 2 == 0 else "odd"
        producer.send(message, DeliveryMode.PERSISTENT, 4, 0)
    chosen = _texts(session, queue, "number >= 3 AND JMSType = 'even'", 3, waits)
    expect("the messages that number >= 3 AND JMSType = 'even' chose among 0 to 9", chosen, ["4", "6", "8"])
    # What was not chosen must be on the queue still, in its order.
    others = _texts(session, queue, None, 7, waits)
    expect("the messages that were left", others, ["0", "1", "2", "3", "5", "7", "9"])


def _texts(session: Session, queue: Queue, selector: str | None, count: int, waits: Waits) -> list[str | None]:
    """Return the texts of the first `count` messages that a consumer gets, and of another one that is there."""
    with session.create_consumer(queue, selector) as consumer:
        received: list[Any] = [consumer.receive(waits.something_ms) for _ in range(count)]
        # One message too many shows here at once, without a wait in each of the tests.
        received += [message for message in [consumer.receive_no_wait()] if message is not None]
    return [message and message.text for message in received]


@requirement("3.8.1.1-d")
def test_3_8_1_1_d_string_literals(judge: Judge) -> None:
    judge("JMS:SPEC:39")


@requirement("3.8.1.1-e")
def test_3_8_1_1_e_whole_number_literals(judge: Judge) -> None:
    judge("JMS:SPEC:40")


@requirement("3.8.1.1-f")
def test_3_8_1_1_f_approximate_number_literals(judge: Judge) -> None:
    judge("JMS:SPEC:41")


@requirement("3.8.1.1-g")
def test_3_8_1_1_g_boolean_literals(judge: Judge) -> None:
    judge("JMS:SPEC:42")


@requirement("3.8.1.1-h")
def test_3_8_1_1_h_identifiers(judge: Judge) -> None:
    judge("JMS:SPEC:43")


@requirement("3.8.1.1-i")
def test_3_8_1_1_i_literals_are_no_identifiers(judge: Judge) -> None:
    judge("JMS:SPEC:44")


@requirement("3.8.1.1-j")
def test_3_8_1_1_j_operator_words_are_no_identifiers(judge: Judge) -> None:
    judge("JMS:SPEC:45")


@requirement("3.8.1.1-k")
def test_3_8_1_1_k_identifiers_stand_for_fields_and_properties(judge: Judge) -> None:
    judge("JMS:SPEC:46")


@requirement("3.8.1.1-l")
def test_3_8_1_1_l_property_values_are_not_converted(judge: Judge) -> None:
    judge("JMS:SPEC:47")


@requirement("3.8.1.1-m")
def test_3_8_1_1_m_identifiers_are_compared_with_case(judge: Judge) -> None:
    judge("JMS:SPEC:48")


@requirement("3.8.1.1-n")
def test_3_8_1_1_n_header_fields_that_can_be_referred_to(judge: Judge) -> None:
    judge("JMS:SPEC:49")


@requirement("3.8.1.1-o")
def test_3_8_1_1_o_white_space_separates_tokens(judge: Judge) -> None:
    judge("JMS:SPEC:53")


@requirement("3.8.1.1-p")
@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("number > 3", ["5"]),
        ("NOT (number > 3)", ["1"]),
        ("number > 3 OR flag", ["5"]),
        ("NOT (number > 3) AND NOT flag", ["1"]),
        ("number IS NULL", ["none"]),
    ],
)
def test_3_8_1_1_p_only_true_is_a_match(
    session: Session, queue: Queue, waits: Waits, selector: str, chosen: list[str]
) -> None:
    producer = session.create_producer(queue)
    for text in ("none", "1", "5"):  # for the first one, comparisons are neither true nor false
        message = session.create_text_message(text)
        if text != "none":
            message.set_int_property("number", int(text))
            message.set_boolean_property("flag", False)
        producer.send(message)
    expect(f"what {selector!r} chose", _texts(session, queue, selector, 1, waits), chosen)


@requirement("3.8.1.1-q")
def test_3_8_1_1_q_arithmetic_expressions(judge: Judge) -> None:
    judge("JMS:SPEC:55")


@requirement("3.8.1.1-r")
def test_3_8_1_1_r_conditional_expressions_combine(judge: Judge) -> None:
    judge("JMS:SPEC:56")


@requirement("3.8.1.1-s")
def test_3_8_1_1_s_parentheses_group(judge: Judge) -> None:
    judge("JMS:SPEC:57")


@requirement("3.8.1.1-t")
def test_3_8_1_1_t_precedence_of_logical_operators(judge: Judge) -> None:
    judge("JMS:SPEC:58")


@requirement("3.8.1.1-u")
def test_3_8_1_1_u_comparison_operators(judge: Judge) -> None:
    judge("JMS:SPEC:59")


@requirement("3.8.1.1-v")
def test_3_8_1_1_v_only_like_types_compare(judge: Judge) -> None:
    judge("JMS:SPEC:60")


@requirement("3.8.1.1-w")
def test_3_8_1_1_w_strings_and_booleans_know_equality_only(judge: Judge) -> None:
    judge("JMS:SPEC:61")


@requirement("3.8.1.1-w")
def test_3_8_1_1_w_strings_are_equal_when_all_characters_are(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.create_producer(queue)
    # Databases compare without case, or without trailing blanks; a broker that selects in SQL must not.
    words = ("word", "Word", "words", "word ")
    for word in words:
        message = session.create_text_message(word)
        message.set_string_property("said", word)
        producer.send(message)
    expect("what said = 'word' chose", _texts(session, queue, "said = 'word'", 1, waits), ["word"])
    expect("what said <> 'word' chose", _texts(session, queue, "said <> 'word'", 3, waits), list(words[1:]))


@requirement("3.8.1.1-x")
def test_3_8_1_1_x_precedence_of_arithmetic_operators(judge: Judge) -> None:
    judge("JMS:SPEC:62")


@requirement("3.8.1.1-y")
def test_3_8_1_1_y_arithmetic_promotes_as_java_does(judge: Judge) -> None:
    judge("JMS:SPEC:63")


@requirement("3.8.1.1-z")
def test_3_8_1_1_z_between(judge: Judge) -> None:
    judge("JMS:SPEC:64")


@requirement("3.8.1.1-aa")
def test_3_8_1_1_aa_in_a_list_of_strings(judge: Judge) -> None:
    judge("JMS:SPEC:65")


@requirement("3.8.1.1-ab")
def test_3_8_1_1_ab_like_a_pattern(judge: Judge) -> None:
    judge("JMS:SPEC:66")


@requirement("3.8.1.1-ac")
def test_3_8_1_1_ac_is_null(judge: Judge) -> None:
    judge("JMS:SPEC:67")


@requirement("3.8.1.1-ad")
def test_3_8_1_1_ad_is_not_null(judge: Judge) -> None:
    judge("JMS:SPEC:68")


@requirement("3.8.1.1-ae")
def test_3_8_1_1_ae_a_wrong_selector_is_refused_at_once(judge: Judge) -> None:
    judge("JMS:SPEC:69")


@requirement("3.8.1.1-af")
def test_3_8_1_1_af_operator_words_in_any_case(judge: Judge) -> None:
    judge("JMS:SPEC:247")


@requirement("3.8.1.1-ag")
def test_3_8_1_1_ag_the_text_decides_where_brokers_differ(judge_all: Callable[[list[Any]], None]) -> None:
    judge_all(vectors_of(lambda vector: vector["specified"] and not vector["portable"]))


@requirement("3.8.1.1-ah")
def test_3_8_1_1_ah_where_the_text_is_silent(
    environment: Environment, connection: Connection, make_queue: Callable[[], Queue], record: Record
) -> None:
    vectors = vectors_of(lambda vector: not vector["specified"])
    selecting = Selecting(environment, connection, make_queue, vectors)
    by_outcome: dict[str, list[str]] = {}
    for vector in vectors:
        by_outcome.setdefault(_OUTCOMES[selecting.outcome(vector)], []).append(repr(vector["selector"]))
    # Recorded, not judged: JMS says nothing of these selectors.
    for outcome, selectors in sorted(by_outcome.items()):
        record(f"each of these selectors {outcome}: {', '.join(selectors)}")


@requirement("3.8.1.2-a")
def test_3_8_1_2_a_truth_table_of_and(judge: Judge) -> None:
    judge("JMS:SPEC:248")


@requirement("3.8.1.2-b")
def test_3_8_1_2_b_truth_table_of_or(judge: Judge) -> None:
    judge("JMS:SPEC:249")


@requirement("3.8.1.2-c")
def test_3_8_1_2_c_truth_table_of_not(judge: Judge) -> None:
    judge("JMS:SPEC:250")
