"""The published reports: a fresh run is no worse, and the published files belong together.

`make soak-conformance` judges each provider by the whole suite. Otherwise the broker in memory is, and the others by a fifth of the
sections, other ones each time; ``PYJMS_CONFORMANCE_SEED`` repeats a choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyjms_tck.report.html import to_html
from pyjms_tck.report.terminal import compare
from pyjms_tck.results import NO_TEST, Outcome, Report
from tests.brokers.running import KINDS
from tests.provider.postgresql import PostgresqlServer
from tests.tck.sampling import SEED, part_of_sections
from tests.tidy.source import ROOT
from tools.make_conformance import FAULTY, FOLDER, HEAD, PROVIDERS, Judged, index, judge, port_of, store_in
from tools.served_broker import served_cluster

if TYPE_CHECKING:
    from pyjms_tck.results import Judgement

WAIVING = {
    "vm-memory": "what is in memory does not survive a restart",
    "activemq_amqp": "maps with characters above U+FFFF cannot be read",
}
"""The providers that keep a required rule in part only, and why: their profiles waive it."""

MEMBERS = {"cluster": "stomp", "cluster-amqp": "amqp"}
"""The protocols by which members of a cluster are judged."""

by_provider = pytest.mark.parametrize("judged", PROVIDERS, ids=lambda judged: judged.name)
by_provider_at_hand = pytest.mark.parametrize(
    "judged",
    [
        pytest.param(
            judged,
            marks=pytest.mark.requires("postgresql")
            if "{postgresql}" in judged.url or judged.name in MEMBERS
            else pytest.mark.requires(judged.name)
            if judged.name in KINDS
            else (),
        )
        for judged in PROVIDERS
    ],
    ids=lambda judged: judged.name,
)


def sections(judged: Judged) -> tuple[str, ...]:
    """Return the sections of the specification by which a provider is judged; none are all."""
    if judged.name == "vm-memory":
        return ()
    chosen = part_of_sections(published(judged), judged.name)
    return chosen[::3] if judged.name == "cluster-amqp" else chosen  # what differs from "cluster" is the port alone


def places(judged: Judged, request: pytest.FixtureRequest) -> dict[str, object]:
    """Return what the tests share of what the provider asks for; the suite uses names of its own there."""
    if "{postgresql}" in judged.url:
        return {"postgresql": store_in(request.getfixturevalue("postgresql"))}
    if judged.name in MEMBERS:
        return {judged.name.replace("-", "_"): request.getfixturevalue("member_that_leads_nothing")}
    return {judged.name: port_of(request.getfixturevalue(judged.name))} if judged.name in KINDS else {}


@pytest.fixture
def member_that_leads_nothing(judged: Judged, postgresql: PostgresqlServer, tmp_path: Path) -> Iterator[int]:
    """The port of a member of a cluster."""
    with served_cluster(tmp_path, postgresql.make_store(), scheme=MEMBERS[judged.name]) as port:
        yield port


def published(judged: Judged) -> Report:
    return Report.from_json((FOLDER / f"{judged.name}.json").read_text("utf-8"))


def explain(judgements: tuple[Judgement, ...], id: str) -> str:
    failures = [
        f"expected {test.failure.expected}, seen {test.failure.seen}"
        for judgement in judgements
        if judgement.requirement.id == id
        for test in judgement.failures
        if test.failure
    ]
    return f"{id}: {'; '.join(failures)}"


@pytest.mark.timeout(900)  # minutes where others use the machine, too
@by_provider_at_hand
def test_a_published_report_does_not_get_worse(judged: Judged, request: pytest.FixtureRequest) -> None:
    report = judge(judged, sections(judged), places(judged, request))
    worse = [change for change in compare(published(judged), report) if change.is_worse]
    assert [explain(report.judgements, change.id) for change in worse] == [], f"PYJMS_CONFORMANCE_SEED={SEED}"
    assert [one.requirement.id for one in report.judgements if one.reason == NO_TEST] == []


@by_provider
def test_a_published_report_conforms_and_records_what_is_undefined(judged: Judged) -> None:
    report = published(judged)
    assert report.has_passed
    assert bool(report.waived) is (judged.name in WAIVING)
    silent = [
        judgement.requirement.id
        for judgement in report.judgements
        if judgement.requirement.level == "undefined" and judgement.outcome is Outcome.PASSED and not judgement.observed
    ]
    assert silent == []


@by_provider
def test_the_page_is_that_of_the_data(judged: Judged) -> None:
    assert (FOLDER / f"{judged.name}.html").read_text("utf-8") == to_html(published(judged))


def test_the_list_is_that_of_the_reports() -> None:
    page = (FOLDER / "index.md").read_text("utf-8")
    assert page == index({judged.name: published(judged) for judged in PROVIDERS})
    assert page.startswith(HEAD)


def test_reports_do_not_tell_where_they_were_made() -> None:
    texts = [path.read_text("utf-8") for path in FOLDER.iterdir() if path.suffix in {".json", ".html"}]
    assert texts
    assert not [text for text in texts if str(ROOT) in text or "0x7f" in text]


@pytest.mark.timeout(300)
def test_the_fault_of_the_guide_is_found() -> None:
    report = judge(FAULTY, ("3.4.7", "3.4.10"))
    outcomes = {one.requirement.id: one.outcome for one in report.judgements}
    assert outcomes["3.4.7-a"] is Outcome.FAILED
    assert outcomes["3.4.10-a"] is Outcome.PASSED
