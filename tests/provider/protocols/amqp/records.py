"""Random records of AMQP (parts 2 to 5)."""

from __future__ import annotations

from hypothesis import strategies as st

from pyjms_provider.amqp.performatives import (
    Accepted,
    Answered,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Declared,
    Detach,
    Discharge,
    Disposition,
    End,
    Error,
    Flow,
    Header,
    Modified,
    Open,
    Properties,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
)

_UINT = st.integers(0, 2**32 - 1)
_NAMES = st.text(st.characters(codec="ascii"), max_size=20)
_SYMBOLS = st.lists(_NAMES, max_size=3).map(tuple)
_FIELDS = st.none() | st.dictionaries(_NAMES, st.integers(-5, 5) | st.text(max_size=5), max_size=3)
_ERRORS = st.builds(Error, _NAMES, st.none() | st.text(max_size=20), _FIELDS)
_STATES = st.one_of(
    st.just(Accepted()),
    st.just(Released()),
    st.builds(Rejected, st.none() | _ERRORS),
    st.builds(Modified, st.none() | st.booleans(), st.none() | st.booleans(), _FIELDS),
    st.builds(Received, _UINT, st.integers(0, 2**64 - 1)),
    st.builds(Declared, st.binary(max_size=8)),
    st.builds(Answered, st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3), st.booleans()),
    st.builds(TransactionalState, st.binary(max_size=8), st.none() | st.just(Accepted())),
)
_SOURCES = st.builds(
    Source,
    st.none() | st.text(max_size=10),
    _UINT,
    _NAMES,
    _UINT,
    st.booleans(),
    _FIELDS,
    st.none() | _NAMES,
    _FIELDS,
    st.none() | st.just(Released()),
    _SYMBOLS,
    _SYMBOLS,
)
_TARGETS = st.one_of(
    st.builds(Target, st.none() | st.text(max_size=10), _UINT, _NAMES, _UINT, st.booleans(), _FIELDS, _SYMBOLS),
    st.builds(Coordinator, _SYMBOLS),
)
_OPTIONAL_UINT = st.none() | _UINT
RECORDS = st.one_of(
    st.builds(Open, st.text(max_size=10), st.none() | st.text(max_size=5), _UINT, st.integers(0, 65535), _OPTIONAL_UINT, _SYMBOLS, _SYMBOLS, _SYMBOLS, _SYMBOLS, _FIELDS),
    st.builds(Begin, st.none() | st.integers(0, 65535), _UINT, _UINT, _UINT, _UINT, _SYMBOLS, _SYMBOLS, _FIELDS),
    st.builds(Attach, st.text(max_size=10), _UINT, st.booleans(), st.integers(0, 2), st.integers(0, 1), st.none() | _SOURCES, st.none() | _TARGETS, st.none(), st.booleans(), _OPTIONAL_UINT, st.none() | st.integers(0, 2**64 - 1), _SYMBOLS, _SYMBOLS, _FIELDS),
    st.builds(Flow, _OPTIONAL_UINT, _UINT, _UINT, _UINT, _OPTIONAL_UINT, _OPTIONAL_UINT, _OPTIONAL_UINT, _OPTIONAL_UINT, st.booleans(), st.booleans(), _FIELDS),
    st.builds(Transfer, _UINT, _OPTIONAL_UINT, st.none() | st.binary(max_size=32), _OPTIONAL_UINT, st.none() | st.booleans(), st.booleans(), st.none() | st.integers(0, 1), st.none() | _STATES, st.booleans(), st.booleans(), st.booleans()),
    st.builds(Disposition, st.booleans(), _UINT, _OPTIONAL_UINT, st.booleans(), st.none() | _STATES, st.booleans()),
    st.builds(Detach, _UINT, st.booleans(), st.none() | _ERRORS),
    st.builds(End, st.none() | _ERRORS),
    st.builds(Close, st.none() | _ERRORS),
    st.builds(SaslMechanisms, st.lists(_NAMES, min_size=1, max_size=3).map(tuple)),
    st.builds(SaslInit, _NAMES, st.none() | st.binary(max_size=20), st.none() | st.text(max_size=5)),
    st.builds(SaslChallenge, st.binary(max_size=300)),
    st.builds(SaslResponse, st.binary(max_size=300)),
    st.builds(SaslOutcome, st.integers(0, 4), st.none() | st.binary(max_size=20)),
    st.builds(Declare),
    st.builds(Discharge, st.binary(max_size=8), st.booleans()),
    st.builds(Header, st.booleans(), st.integers(0, 255), _OPTIONAL_UINT, st.booleans(), _UINT),
    st.builds(Properties, st.none() | st.text(max_size=9), st.none() | st.binary(max_size=9), *[st.none() | st.text(max_size=9)] * 4, st.none() | _NAMES, st.none() | _NAMES, st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.integers(0, 2**60), st.none() | st.text(max_size=9), _OPTIONAL_UINT, st.none() | st.text(max_size=9)),
)  # fmt: skip
