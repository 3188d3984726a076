"""The API's description: it is valid, and the API does as it says, whatever it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import validate
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pyjms_provider.management.openapi import describe_api
from pyjms_provider.management.rest.app import RestSettings
from pyjms_provider.model import tree
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.operations import operations_of
from tests.provider.management.world import ROOT, Site, basic
from tests.sampling import sample

AUTHORIZATION = {"authorization": basic("ann", "ann's-password")}
# Names of what there is: names that are made up find nothing to do anything with.
REAL = {
    "access_control": "access",
    "authentication_provider": "users",
    "dead_letter": "DLQ",
    "port": "port",
    "queue": "orders",
    "store": "store",
    "virtual_host": "shop",
    "virtual_host_node": "main",
}


@contextmanager
def furnished(tmp_path: Path) -> Iterator[Site]:
    site = Site(settings=RestSettings(allowed_hosts=("testserver",)))  # as which its generator asks
    site.queue()
    site.queue("DLQ")
    site.publish("orders", "one", "two")
    top = site.system.broker
    top.create_child("access_control", {"name": "access", "rules": []})
    top.create_child("authentication_provider", {"name": "users", "type": "user-file", "path": str(tmp_path / "users")})
    top.create_child("port", {"name": "port", "type": "stomp", "port": 0})
    try:
        yield site
    finally:
        site.close()


def test_the_description_is_valid_openapi() -> None:
    validate(describe_api())


def test_every_category_and_operation_is_described() -> None:
    paths = describe_api()["paths"]
    for shape in tree.TREE.values():
        if shape.category == tree.ROOT:
            continue
        names = () if shape.category == "broker" else names_needed(shape.category)
        whole = "/".join((f"{ROOT}/{shape.category}", *(f"{{{name}}}" for name in names)))
        assert ("patch" in paths[whole]) is not shape.is_observed
        for name in tree.types_of(shape.category):
            for operation in operations_of(tree.class_of(shape.category, name)[1]):
                assert "post" in paths[f"{whole}/{operation}"]


@pytest.mark.timeout(300)
def test_the_api_answers_whatever_it_is_asked_as_it_is_described(tmp_path: Path) -> None:
    """Each operation meets a few requests that the description allows, on a broker that is new each time.

    Left out is the check that each of them succeeds: the model has rules that a schema cannot say.
    """
    holder: list[Site] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await holder[-1].app(scope, receive, send)

    with furnished(tmp_path) as site:
        holder.append(site)
        schema: Any = schemathesis.openapi.from_asgi(f"{ROOT}/openapi.json", app, headers=AUTHORIZATION)
    statuses: Counter[int] = Counter()
    every = [found.ok() for found in schema.get_all_operations()]
    for operation in sample(every, len(every) // 2, "operations of the management API"):

        @settings(
            max_examples=2,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            derandomize=True,
            phases=[Phase.generate],
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = REAL.get(name, case.path_parameters[name])
            response = case.call_and_validate(headers=AUTHORIZATION, excluded_checks=[positive_data_acceptance])
            statuses[response.status_code] += 1

        with furnished(tmp_path) as site:
            holder[:] = [site]
            ask()
    assert statuses[200] > 20, statuses
    assert statuses[500] == 0
