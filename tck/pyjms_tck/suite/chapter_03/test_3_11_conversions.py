"""JMS 1.1 §3.11.3: which value of a MapMessage or a StreamMessage is read as which type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyjms import MessageFormatException, NullPointerException, NumberFormatException, Session
from pyjms_tck.checks import Checks
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_03.carriers import MAP, STREAM, check_null, check_parsing, check_row
from pyjms_tck.vectors import BODY_TYPES

RoundTrip = Callable[[Any], Any]
_NULLS = ("boolean", "byte", "short", "int", "long", "float", "double", "String", "byte[]")
_TRUE = ("true", "TRUE", "True", "tRUe")
_FALSE = ("false", "", " true", "true ", "1", "yes", "t", "truth", "\u0442rue")


def _converts(session: Session, roundtrip: RoundTrip, type: str) -> None:
    check_row(session, roundtrip, type, [MAP, STREAM], converts=True)


def _refuses(session: Session, roundtrip: RoundTrip, type: str) -> None:
    check_row(session, roundtrip, type, [MAP, STREAM], converts=False)


@requirement("3.11.3-a")
def test_3_11_3_a_streams_and_maps_hold_the_same_types(session: Session, roundtrip: RoundTrip) -> None:
    map, stream = session.create_map_message(), session.create_stream_message()
    for number, type in enumerate(BODY_TYPES):
        value: Any = type.values[-1]
        MAP.put(map, number, type.name, value)
        map.set_object(type.word, type.kind(value))
        STREAM.put(stream, 0, type.name, value)
        stream.write_object(type.kind(value))
    received_map, received_stream = roundtrip(map), roundtrip(stream)
    with Checks() as check:
        for number, type in enumerate(BODY_TYPES):
            for how, name in (("typed", f"p{number}"), ("object", type.word)):
                from_map = received_map.get_object(name)
                from_stream = received_stream.read_object()
                check.same(f"{type.name} in a StreamMessage ({how}) and in a MapMessage", from_stream, from_map)
                seen = f"{from_stream.__class__.__name__} and {from_map.__class__.__name__}"
                check.same("their classes", seen, f"{type.kind.__name__} and {type.kind.__name__}")


@requirement("3.11.3-b")
def test_3_11_3_b_a_boolean_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "boolean")


@requirement("3.11.3-c")
def test_3_11_3_c_a_boolean_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "boolean")


@requirement("3.11.3-d")
def test_3_11_3_d_a_byte_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "byte")


@requirement("3.11.3-e")
def test_3_11_3_e_a_byte_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "byte")


@requirement("3.11.3-f")
def test_3_11_3_f_a_short_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "short")


@requirement("3.11.3-g")
def test_3_11_3_g_a_short_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "short")


@requirement("3.11.3-h")
def test_3_11_3_h_a_char_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "char")


@requirement("3.11.3-i")
def test_3_11_3_i_a_char_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "char")


@requirement("3.11.3-j")
def test_3_11_3_j_an_int_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "int")


@requirement("3.11.3-k")
def test_3_11_3_k_an_int_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "int")


@requirement("3.11.3-l")
def test_3_11_3_l_a_long_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "long")


@requirement("3.11.3-m")
def test_3_11_3_m_a_long_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "long")


@requirement("3.11.3-n")
def test_3_11_3_n_a_float_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "float")


@requirement("3.11.3-o")
def test_3_11_3_o_a_float_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "float")


@requirement("3.11.3-p")
def test_3_11_3_p_a_double_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "double")


@requirement("3.11.3-q")
def test_3_11_3_q_a_double_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "double")


@requirement("3.11.3-r")
def test_3_11_3_r_a_string_is_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "String")


@requirement("3.11.3-s")
def test_3_11_3_s_a_string_is_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "String")


@requirement("3.11.3-t")
def test_3_11_3_t_bytes_are_read_as_what_the_table_allows(session: Session, roundtrip: RoundTrip) -> None:
    _converts(session, roundtrip, "byte[]")


@requirement("3.11.3-u")
def test_3_11_3_u_bytes_are_read_as_nothing_else(session: Session, roundtrip: RoundTrip) -> None:
    _refuses(session, roundtrip, "byte[]")


@requirement("3.11.3-w")
def test_3_11_3_w_a_text_is_parsed_as_java_does(session: Session, roundtrip: RoundTrip) -> None:
    check_parsing(session, roundtrip, [MAP, STREAM])


@requirement("3.11.3-x")
def test_3_11_3_x_the_word_true_alone_is_true(session: Session, roundtrip: RoundTrip) -> None:
    map, stream = session.create_map_message(), session.create_stream_message()
    for number, text in enumerate((*_TRUE, *_FALSE)):
        map.set_string(str(number), text)
        stream.write_string(text)
    received_map, received_stream = roundtrip(map), roundtrip(stream)
    with Checks() as check:
        for number, text in enumerate((*_TRUE, *_FALSE)):
            check.gives(f"the text {text!r} of a MapMessage", text in _TRUE, received_map.getBoolean, str(number))
            check.gives(f"the text {text!r} of a StreamMessage", text in _TRUE, received_stream.readBoolean)


@requirement("3.11.3-y")
def test_3_11_3_y_null_reads_as_value_of_null(session: Session, roundtrip: RoundTrip) -> None:
    with Checks() as check:
        for carrier in (MAP, STREAM):
            for type in ("String", "byte[]"):
                message: Any = carrier.create(session)
                if carrier is STREAM and type == "byte[]":
                    message.write_object(None)
                else:
                    carrier.put(message, 0, type, None)
                for state, seen in (("received", roundtrip(message)), ("sent", message)):
                    what = f"{carrier.title} {type} null ({state} message)"
                    check_null(check, what, partial(carrier.get, seen, 0), _NULLS)


@requirement("3.11.3-z")
def test_3_11_3_z_null_is_no_char(session: Session, roundtrip: RoundTrip) -> None:
    map, stream = session.create_map_message(), session.create_stream_message()
    map.set_string("null", None)
    stream.write_string(None)
    received = roundtrip(map)
    with Checks() as check:
        check.fails("getChar of null", NullPointerException, received.getChar, "null")
        check.fails("getChar of no entry", NullPointerException, received.get_char, "nowhere")
        check.fails("readChar of null", NullPointerException, roundtrip(stream).readChar)


@requirement("3.11.3-aa")
def test_3_11_3_aa_an_entry_that_does_not_exist_reads_as_null(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    with Checks() as check:
        for state, seen in (("received", roundtrip(message)), ("sent", message)):
            check_null(check, f"an entry that was never set ({state} message)", partial(MAP.get, seen, 0), _NULLS)
            check.same(f"getObject of an entry that was never set ({state} message)", seen.get_object("p0"), None)


@requirement("3.11.3-ab")
def test_3_11_3_ab_a_failed_read_can_be_repeated(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    message.write_string("no number")
    message.write_long(2**40)
    message.write_bytes(b"bytes")
    message.write_string(None)
    received = roundtrip(message)
    with Checks() as check:
        check.fails("readInt of the text", NumberFormatException, received.readInt)
        check.fails("readBytes of the text", MessageFormatException, received.readBytes, bytearray(4))
        check.fails("readChar of the text", MessageFormatException, received.readChar)
        check.gives("readString after these", "no number", received.readString)
        check.fails("readInt of a long", MessageFormatException, received.readInt)
        check.gives("readLong after it", 2**40, received.readLong)
        check.fails("readString of bytes", MessageFormatException, received.readString)
        check.gives("readObject after it", b"bytes", received.readObject)
        check.fails("readLong of null", NumberFormatException, received.readLong)
        check.gives("readString after it", None, received.readString)
