"""Jobs: long operations that run in the background, report progress, and can be stopped half way."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.management.errors import JobError, UnknownJobError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.model.operations import Progress
    from pyjms_provider.security.contracts import Principal

_log = logging.getLogger(__name__)
_RUNNING_MAX: Final = 16
_KEPT_MAX: Final = 200


class JobState(Enum):
    """The state of a job."""

    RUNNING = "running"
    DONE = "done"
    ENDED = "ended"
    """A user stopped it half way."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One operation, as it is now."""

    id: str
    what: str
    who: Principal
    """The user that started it."""
    state: JobState
    started_ms: int
    done: int = 0
    total: int | None = None
    """None: unknown."""
    result: Any = None
    error: ProviderError | None = None

    def is_of(self, principal: Principal) -> bool:
        """Return whether `principal` started it: a name identifies a user only together with the authentication provider."""
        return (self.who.provider, self.who.name) == (principal.provider, principal.name)


class Jobs:
    """Safe to use from any thread; the lock is taken alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._ending: set[str] = set()
        self._threads: dict[str, Thread] = {}

    def start(self, what: str, who: Principal, run: Callable[[Progress], Any]) -> Job:
        """Run `run` on a thread of its own. Raises `JobError` when too many run, or no thread can be started."""
        job = Job(
            id=uuid.uuid4().hex[:12], what=what, who=who, state=JobState.RUNNING, started_ms=self._clock.time_ms()
        )
        thread = Thread(target=self._run, args=(job.id, run), name=f"pyjms job {what}", daemon=True)
        with self._lock:
            if len(self._threads) >= _RUNNING_MAX:
                raise JobError(f"{_RUNNING_MAX} long operations run already: wait for one to end, or end one")
            # Registered before the thread runs: a job that ends at once has to find itself here.
            self._jobs[job.id] = job
            self._threads[job.id] = thread
            while len(self._jobs) > _KEPT_MAX:
                oldest = next((each.id for each in self._jobs.values() if each.state is not JobState.RUNNING), None)
                if oldest is None:
                    break
                del self._jobs[oldest]
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                # A job without a thread would keep its place among those that run for ever.
                del self._jobs[job.id], self._threads[job.id]
            raise JobError(f"{what} cannot be begun now: {error}; wait for other work to end, and try again") from error
        return job

    def get(self, job_id: str) -> Job:
        """Return a job as it is now. Raises `UnknownJobError`."""
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJobError(f"there is no job {job_id[:40]!r}")
        return job

    def all(self) -> list[Job]:
        """Return all that are remembered, the oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def end(self, job_id: str) -> Job:
        """Ask a job to stop at its next report; completed work stays done. Raises `UnknownJobError`."""
        with self._lock:
            # A job that is over is not noted: nothing would take its id out of `_ending` again.
            if job_id in self._threads:
                self._ending.add(job_id)
        return self.get(job_id)

    def close(self) -> None:
        """End all jobs, and wait until they stop, ten seconds for each at most."""
        with self._lock:
            self._ending.update(self._threads)
            threads = list(self._threads.values())
        for thread in threads:
            # The threads are daemons: a job that does not notice within this time
            # keeps neither the other threads nor the process.
            thread.join(10.0)

    def _run(self, job_id: str, run: Callable[[Progress], Any]) -> None:
        changes: dict[str, Any] = {}
        try:
            result = run(lambda done, total: self._note(job_id, done, total))
            changes = {"state": JobState.DONE, "result": result}
        except ProviderError as error:
            changes = {"state": JobState.FAILED, "error": error}
        except Exception:
            _log.exception("PYJMS-JOB-1 job %s failed", job_id)
            changes = {
                "state": JobState.FAILED,
                "error": JobError("it failed; the broker's log says why (PYJMS-JOB-1)"),
            }
        with self._lock:
            # An operation that was ended half way returns like a complete one, so only this note tells them apart.
            if job_id in self._ending and changes["state"] is JobState.DONE:
                changes["state"] = JobState.ENDED
            self._ending.discard(job_id)
            self._threads.pop(job_id, None)
            self._jobs[job_id] = replace(self._jobs[job_id], **changes)

    def _note(self, job_id: str, done: int, total: int | None) -> bool:
        with self._lock:
            self._jobs[job_id] = replace(self._jobs[job_id], done=done, total=total)
            return job_id not in self._ending
