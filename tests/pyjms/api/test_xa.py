from __future__ import annotations

import copy
import pickle

import pytest

from pyjms import JMSException, XAException, XAResource, Xid


def test_the_flags_are_those_of_java() -> None:
    flags = {
        "TMNOFLAGS": 0,
        "TMJOIN": 2097152,
        "TMENDRSCAN": 8388608,
        "TMSTARTRSCAN": 16777216,
        "TMSUSPEND": 33554432,
        "TMSUCCESS": 67108864,
        "TMRESUME": 134217728,
        "TMFAIL": 536870912,
        "TMONEPHASE": 1073741824,
        "XA_OK": 0,
        "XA_RDONLY": 3,
    }
    assert {name: getattr(XAResource, name) for name in flags} == flags


def test_the_error_codes_are_those_of_java() -> None:
    rolled_back = ["ROLLBACK", "COMMFAIL", "DEADLOCK", "INTEGRITY", "OTHER", "PROTO", "TIMEOUT", "TRANSIENT"]
    refused = ["ASYNC", "RMERR", "NOTA", "INVAL", "PROTO", "RMFAIL", "DUPID", "OUTSIDE"]
    heuristic = ["MIX", "RB", "COM", "HAZ"]
    assert [getattr(XAException, f"XA_RB{name}") for name in rolled_back] == list(range(100, 108))
    assert (XAException.XA_RBBASE, XAException.XA_RBEND) == (100, 107)
    assert [getattr(XAException, f"XAER_{name}") for name in refused] == list(range(-2, -10, -1))
    assert [getattr(XAException, f"XA_HEUR{name}") for name in heuristic] == [5, 6, 7, 8]
    assert (XAException.XA_NOMIGRATE, XAException.XA_RETRY, XAException.XA_RDONLY) == (9, 4, 3)


def test_the_methods_have_the_names_of_java() -> None:
    resource = {"start", "end", "prepare", "commit", "rollback", "recover", "forget", "isSameRM"}
    resource |= {"getTransactionTimeout", "setTransactionTimeout"}
    assert {name for member in XAResource.java_members.values() for name in member.java} == resource
    xid = {"getFormatId", "getGlobalTransactionId", "getBranchQualifier"}
    assert {name for member in Xid.java_members.values() for name in member.java} == xid
    assert (Xid.MAXGTRIDSIZE, Xid.MAXBQUALSIZE) == (64, 64)


@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (XAException(), "XA error 0", 0),
        (XAException("why"), "why", 0),
        (XAException(XAException.XAER_NOTA), "XA error -4", -4),
        (XAException("why", XAException.XAER_DUPID), "why", -8),
    ],
)
def test_an_xa_exception_has_a_text_a_code_or_both(error: XAException, text: str, code: int) -> None:
    for found in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (str(found), found.errorCode, found.error_code, found.getErrorCode()) == (text, code, code, code)


def test_the_code_is_a_field_as_in_java() -> None:
    error = XAException("why")
    error.errorCode = XAException.XA_HEURMIX
    assert error.error_code == 5


def test_an_xa_exception_is_no_jms_exception() -> None:
    assert not issubclass(XAException, JMSException)
