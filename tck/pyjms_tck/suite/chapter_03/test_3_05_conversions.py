"""JMS 1.1 §3.5.4: which property is read as which type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyjms import Session
from pyjms_tck.checks import Checks
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_03.carriers import PROPERTIES, check_null, check_parsing, check_row

RoundTrip = Callable[[Any], Any]


def _converts(session: Session, roundtrip: RoundTrip, type: str) -> None:
    check_row(session, roundtrip, type, [PROPERTIES], converts=True)


def _refuses(session: Session, roundtrip: RoundTrip, type: str) -> None:
    check_row(session, roundtrip, type, [PROPERTIES], converts=False)


@requirement("3.5.4-a")
def test_3_5_4_a_a_boolean_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "boolean")


@requirement("3.5.4-b")
def test_3_5_4_b_a_boolean_property_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "boolean")


@requirement("3.5.4-c")
def test_3_5_4_c_a_byte_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "byte")


@requirement("3.5.4-d")
def test_3_5_4_d_a_byte_property_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "byte")


@requirement("3.5.4-e")
def test_3_5_4_e_a_short_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "short")


@requirement("3.5.4-f")
def test_3_5_4_f_a_short_property_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "short")


@requirement("3.5.4-g")
def test_3_5_4_g_an_int_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "int")


@requirement("3.5.4-h")
def test_3_5_4_h_an_int_property_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "int")


@requirement("3.5.4-i")
def test_3_5_4_i_a_long_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "long")


@requirement("3.5.4-j")
def test_3_5_4_j_a_long_property_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "long")


@requirement("3.5.4-k")
def test_3_5_4_k_a_float_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "float")


@requirement("3.5.4-l")
def test_3_5_4_l_a_float_property_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "float")


@requirement("3.5.4-m")
def test_3_5_4_m_a_double_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "double")


@requirement("3.5.4-n")
def test_3_5_4_n_a_double_property_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "double")


@requirement("3.5.4-o")
def test_3_5_4_o_a_string_property_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "String")


@requirement("3.5.4-p")
def test_3_5_4_p_a_text_is_parsed_as_java_does(session: Session, roundtrip: RoundTrip) -> None:
    check_parsing(session, roundtrip, [PROPERTIES])


@requirement("3.5.4-q")
def test_3_5_4_q_a_null_property_reads_as_value_of_null(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.set_string_property("p0", None)
    with Checks() as check:
        for state, seen in (("received", roundtrip(message)), ("sent", message)):
            check_null(
                check,
                f"a null property ({state} message)",
                partial(PROPERTIES.get, seen, 0),
                ("boolean", "byte", "short", "int", "long", "float", "double", "String"),
            )
