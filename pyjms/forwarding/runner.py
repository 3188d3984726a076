"""A route on a thread of its own, and the kind ``forward`` of ``pyjms.route_runners`` that starts it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread, current_thread

from pyjms.forwarding.settings import Described, RouteSettings, Target
from pyjms.forwarding.transfer import Transfer
from pyjms.forwarding.unit import to_all
from pyjms.spi.errors import ProviderError
from pyjms.spi.routes import RouteRequest, RouteRunner, RouteState, RouteStatistics, RunningRoute


class ForwardRunner(RouteRunner):
    """Moves each message of a queue to each of its targets."""

    def check(self, request: RouteRequest) -> None:
        _read(request)

    def start(self, request: RouteRequest) -> RunningRoute:
        settings, targets = _read(request)
        transfer = Transfer(settings, to_all(targets), lambda: targets, request.clock)
        # Before its thread starts: a paused route must not take a message after a restart.
        transfer.set_paused(request.is_paused)
        return RouteThread(transfer, request.on_failure)


def _read(request: RouteRequest) -> tuple[RouteSettings, list[Target]]:
    described = Described(request, ("targets",))
    settings, targets = described.route(), described.targets()
    if settings.source in targets:
        described.problems.append("targets: one is the source itself")
    described.finish()
    return settings, targets


_log = logging.getLogger("pyjms.routes")

_IN_ORDER_S = 0.5
_BY_FORCE_S = 1.0


class RouteThread(RunningRoute):
    """Runs one transfer. Starts at once."""

    def __init__(self, transfer: Transfer, on_failure: Callable[[str], None] | None = None) -> None:
        """`on_failure`: see `pyjms.spi.routes.RouteRequest`."""
        self._transfer = transfer
        self._on_failure = on_failure
        self._is_stopped = False
        # A daemon: a site that does not answer must not keep the process alive.
        self._thread = Thread(target=self._run, name=f"pyjms route {transfer.settings.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        name = self._transfer.settings.name
        try:
            self._transfer.run()
        except ProviderError as error:
            _log.error("PYJMS-ROUTE route %s has ended: %s", name, error.reason)
        except Exception as error:
            self._transfer.counters.failed(f"{type(error).__name__}: {error}")
            _log.exception("PYJMS-ROUTE route %s has ended by a fault", name)
        # The owner is called on this thread, after the transfer has closed its connections; it may call stop from
        # there.
        failure = self._transfer.counters.statistics()
        if failure.state is RouteState.FAILED and self._on_failure is not None:
            self._on_failure(failure.last_error or "")

    def pause(self) -> None:
        self._transfer.set_paused(True)

    def resume(self) -> None:
        self._transfer.set_paused(False)

    def stop(self) -> None:
        self._is_stopped = True
        self._transfer.halt()
        # A thread that joins itself gets a RuntimeError.
        if self._thread is current_thread():
            return
        self._thread.join(_IN_ORDER_S)
        if self._thread.is_alive():  # a site does not answer
            self._transfer.abort()
            self._thread.join(_BY_FORCE_S)

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the route has ended; return False after `timeout_s` seconds."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def statistics(self) -> RouteStatistics:
        seen = self._transfer.counters.statistics()
        # A halted transfer keeps its state; only a failure remains visible after a stop.
        if self._is_stopped and seen.state is not RouteState.FAILED:
            self._transfer.counters.state = RouteState.STOPPED
            return self._transfer.counters.statistics()
        return seen
