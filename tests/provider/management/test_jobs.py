"""Long operations as jobs: how far they are, ending them half way, and what they tell when they fail."""

from __future__ import annotations

from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
from starlette.testclient import TestClient

from pyjms.testing import VirtualClock
from pyjms_provider.management.errors import JobError, UnknownJobError
from pyjms_provider.management.jobs import Jobs, JobState
from pyjms_provider.model.operations import Progress
from pyjms_provider.security.contracts import Principal
from tests.provider.management.world import ROOT, Site, error_of, ok

PURGE = f"{ROOT}/queue/main/shop/orders/purge"
ASYNC = {"prefer": "respond-async"}
ANN = Principal(name="ann", groups=frozenset({"admins"}), provider="people")


class Work:
    """Something long that goes on step by step, as the test lets it."""

    def __init__(self) -> None:
        self.started, self.go_on, self.left = Event(), Event(), Event()

    def __call__(self, progress: Progress) -> Any:
        progress(1, 3)
        self.started.set()
        assert self.go_on.wait(10)
        went_on = progress(2, 3)
        self.left.set()
        return {"went_on": went_on}


def finished(jobs: Jobs, job_id: str) -> Any:
    """Wait for a job's thread, and return the job."""
    thread = jobs._threads.get(job_id)
    if thread is not None:
        thread.join(10)
    return jobs.get(job_id)


def test_a_job_tells_how_far_it_is_and_ends_half_way() -> None:
    jobs, work = Jobs(VirtualClock()), Work()
    job = jobs.start("work", ANN, work)
    assert work.started.wait(10)
    running = jobs.get(job.id)
    assert (running.state, running.done, running.total) == (JobState.RUNNING, 1, 3)
    assert jobs.end(job.id).state is JobState.RUNNING
    work.go_on.set()
    ended = finished(jobs, job.id)
    assert (ended.state, ended.result, ended.done) == (JobState.ENDED, {"went_on": False}, 2)
    assert jobs.end(job.id).state is JobState.ENDED, "ending may be repeated"


def test_a_job_that_fails_says_why_or_where_to_look(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Progress) -> None:
        raise ValueError("inner detail")

    def refuse(_: Progress) -> None:
        raise JobError("not now")

    jobs = Jobs(VirtualClock())
    failed = finished(jobs, jobs.start("fail", ANN, fail).id)
    assert (failed.state, "PYJMS-JOB-1" in failed.error.reason) == (JobState.FAILED, True)
    assert "inner detail" in caplog.text
    assert finished(jobs, jobs.start("refuse", ANN, refuse).id).error.reason == "not now"


def test_only_so_many_jobs_run_and_are_remembered() -> None:
    jobs = Jobs(VirtualClock())
    works = [Work() for _ in range(16)]
    for work in works:
        jobs.start("work", ANN, work)
    with pytest.raises(JobError, match="run already"):
        jobs.start("one more", ANN, works[0])
    for work in works:
        work.go_on.set()
    jobs.close()
    assert all(job.state is JobState.ENDED for job in jobs.all())
    for _ in range(250):
        finished(jobs, jobs.start("short", ANN, lambda _: None).id)
    assert len(jobs.all()) == 200
    with pytest.raises(UnknownJobError):
        jobs.get("gone")


def test_closing_ends_what_runs() -> None:
    jobs, work = Jobs(VirtualClock()), Work()
    job = jobs.start("work", ANN, work)
    assert work.started.wait(10)
    work.go_on.set()
    jobs.close()
    assert work.left.is_set()
    assert jobs.get(job.id).state in {JobState.DONE, JobState.ENDED}


def test_a_long_operation_runs_as_a_job_of_who_asked(site: Site, ann: TestClient) -> None:
    site.queue()
    site.publish("orders", "one", "two")
    response = ann.post(PURGE, headers=ASYNC)
    job = ok(response, 202)
    assert response.headers["location"] == f"{ROOT}/job/{job['id']}"
    finished(site.management.jobs, job["id"])
    done = ok(ann.get(response.headers["location"]))
    assert (done["state"], done["result"], done["done"]) == ("done", {"messages": 2}, 2)
    assert [each["id"] for each in ok(ann.get(f"{ROOT}/job"))["items"]] == [job["id"]]
    assert ok(ann.delete(f"{ROOT}/job/{job['id']}"))["state"] == "done"
    with site.client("carol") as carol:
        error_of(carol.get(response.headers["location"]), 404)
        error_of(carol.delete(response.headers["location"]), 404)
        assert ok(carol.get(f"{ROOT}/job"))["items"] == []


def test_a_job_is_a_persons_and_not_a_names(site: Site, ann: TestClient) -> None:
    site.queue()
    job = ok(ann.post(PURGE, headers=ASYNC), 202)
    finished(site.management.jobs, job["id"])
    namesake = replace(site.caller(), principal=replace(ANN, provider="others"))
    for end in (False, True):
        with pytest.raises(UnknownJobError, match="of yours"):
            site.management.job(namesake, job["id"], end=end)
    regrouped = replace(site.caller(), principal=replace(ANN, groups=frozenset()))
    assert site.management.job(regrouped, job["id"]).is_of(ANN)
    site.people.provider = "others"  # the port asks another one, who knows an ann, too
    error_of(ann.get(f"{ROOT}/job/{job['id']}"), 404)
    assert ok(ann.get(f"{ROOT}/job"))["items"] == []


def test_a_job_that_only_looks_tells_how_far_it_is_too(site: Site, ann: TestClient) -> None:
    for name in ("first", "second"):
        site.queue(name)
    wanted = {"message_ids": ["ID:nobody"]}
    job = ok(ann.post(f"{ROOT}/virtual_host/main/shop/find_messages", headers=ASYNC, json=wanted), 202)
    finished(site.management.jobs, job["id"])
    done = ok(ann.get(f"{ROOT}/job/{job['id']}"))
    assert (done["state"], done["done"], done["total"]) == ("done", 1, 2)


def test_wrong_arguments_of_a_job_are_told_at_once(site: Site, ann: TestClient) -> None:
    site.queue()
    error_of(ann.post(PURGE, headers=ASYNC, json={"colour": "red"}), 422)
    error_of(ann.get(f"{ROOT}/job/nothing"), 404)


def test_a_selector_that_is_wrong_ends_the_job_with_that_reason(site: Site, ann: TestClient) -> None:
    site.queue()
    moved = {"target": "other", "selector": "a >"}
    job = ok(ann.post(PURGE.replace("purge", "move_messages"), headers=ASYNC, json=moved), 202)
    finished(site.management.jobs, job["id"])
    failed = ok(ann.get(f"{ROOT}/job/{job['id']}"))
    assert failed["state"] == "failed"
    assert "position" in failed["error"]


def test_a_job_for_which_the_system_has_no_thread_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(VirtualClock())

    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", refuse)
        for _ in range(20):
            with pytest.raises(JobError, match="work cannot be begun now: can't start new thread"):
                jobs.start("work", ANN, lambda _: None)
    assert jobs.all() == []
    assert finished(jobs, jobs.start("work", ANN, lambda _: 1).id).result == 1
