"""The modes that sessions are asked for, for tests of whatever creates sessions."""

from __future__ import annotations

import pytest

from pyjms import Session
from pyjms_tck.requirements import needs

in_each_mode = pytest.mark.parametrize(
    ("transacted", "asked", "mode"),
    [
        (False, Session.AUTO_ACKNOWLEDGE, 1),
        (False, Session.CLIENT_ACKNOWLEDGE, 2),
        (False, Session.DUPS_OK_ACKNOWLEDGE, 3),
        pytest.param(True, Session.AUTO_ACKNOWLEDGE, 0, marks=needs("TRANSACTIONS")),
        pytest.param(True, Session.CLIENT_ACKNOWLEDGE, 0, marks=needs("TRANSACTIONS")),
    ],
)
"""Runs a test with what `createSession` is given, and the number that `getAcknowledgeMode` must return."""
