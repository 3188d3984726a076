"""Operators name properties of messages by the rules for clients, and say nothing for the broker."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import IllegalArgumentException, JMSException
from pyjms.messages.base import check_property_name
from pyjms_provider.model.errors import InvalidArgumentsError
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.model.messages import why_not_settable
from tests.provider.model.world import Folder


def publish(queue: ManagedObject, text: str, **properties: Any) -> None:
    queue.invoke("publish", {"message": {"text": text, "properties": properties}})


_NAMES = (
    *(
        "a",
        "_a",
        "$a",
        "ä",
        "a b",
        "1a",
        "",
        "like",
        "Null",
        "JMS",
        "JMSPriority",
        "JMSFoo",
        "JMSXGroupID",
        "JMSXGroupSeq",
    ),
    *(
        "JMSXUserID",
        "JMSXDeliveryCount",
        "JMSXFoo",
        "JMS_",
        "JMS_other",
        "JMS_pyjms",
        "JMS_pyjmsX",
        "JMS_pyjms_deliverAt",
    ),
    *("JMS_pyjms_duplicateId", "JMS_pyjms_deadKind", "JMS_pyjms_deadDestination", "JMS_pyjms_src"),
)


@pytest.mark.parametrize("name", _NAMES)
def test_operators_name_properties_as_clients_do(name: str) -> None:
    try:
        check_property_name(name)
    except (JMSException, IllegalArgumentException):
        assert why_not_settable(name)
    else:
        assert why_not_settable(name) == ""


def test_what_clients_may_set_operators_may_set_too(folder: Folder) -> None:
    host = folder.host()
    given = {
        "JMS_pyjms_deliverAt": 2**50,
        "JMS_pyjms_duplicateId": "once",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": {"type": "int", "value": 3},
        "JMS_other": True,
    }
    queue = host.create_child("queue", {"name": "q"})
    publish(queue, "later", **given)
    assert queue.statistic_values(["delayed"]) == {"delayed": 1}
    (found,) = host.queues.manager.browse("q")
    assert found.deliver_at_ms == given.pop("JMS_pyjms_deliverAt")
    assert found.properties == {**given, "JMSXGroupSeq": 3}


def test_who_may_only_write_to_a_queue_of_dead_letters_sends_nowhere_else(folder: Folder) -> None:
    host = folder.host()
    _, helpdesk = (host.create_child("queue", {"name": name}) for name in ("payments", "helpdesk"))
    forged = {"JMS_pyjms_deadDestination": "queue://payments", "JMS_pyjms_deadKind": "deliveries"}
    with pytest.raises(InvalidArgumentsError, match="is set by the broker"):
        publish(helpdesk, "forged", **forged)
    publish(helpdesk, "forged")
    host.queues.manager.replay("helpdesk")
    waiting = [[each.body for each in host.queues.manager.browse(name)] for name in ("payments", "helpdesk")]
    assert waiting == [[], ["forged"]]
