"""Objects that operators start and stop (Broker-J: where it is supported)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from pyjms.spi.errors import ProviderError
from pyjms_provider.model.configured import ConfiguredObject
from pyjms_provider.model.errors import FailedOpeningError
from pyjms_provider.model.life_cycle import RECOVERY, Event, State, next_state
from pyjms_provider.model.operations import operation

__all__ = ["Startable", "Stoppable"]


class Startable(ConfiguredObject):
    """An object that can be opened again, when it could not be, or was stopped."""

    @operation("Open it: after an error whose reason has gone, or after it was stopped.")
    def start(self, *, by: str = "") -> None:
        """Open it. May be repeated. Raises `FailedOpeningError`: it is ERRORED then."""
        self.configuration_thread.call(lambda: self._start(by))

    def _start(self, by: str) -> None:
        self._check_there()
        if self.state is State.ACTIVE:
            return
        try:
            for phase in RECOVERY:
                self._run_phase(phase)
        except (ProviderError, OSError) as error:
            self._fail(error)
            raise FailedOpeningError(f"{self.path} cannot be started: {self.snapshot.error}") from error
        try:
            self._set_stopped(stopped=False, by=by)
        except Exception:
            self._in_thread(self._on_stop)
            raise
        self._step(Event.START)
        self._open_pending()

    def _set_stopped(self, *, stopped: bool, by: str) -> None:
        before = self.snapshot.record
        if before.is_stopped is stopped:
            return
        self._publish(record=replace(before, is_stopped=stopped, updated_by=by, updated_ms=self.clock.time_ms()))
        try:
            self._write(lambda writer: writer.attributes_changed(self, before.attributes, before.attributes))
        except Exception:
            self._publish(record=before)  # or the next change would keep it
            raise


class Stoppable(Startable):
    """An object that an operator can stop."""

    @operation("Stop it; it stays stopped, also when the broker starts again, until it is started.")
    def stop(self, *, by: str = "") -> None:
        """Stop it. May be repeated. Raises `WrongStateError`."""
        self.configuration_thread.call(lambda: self._stop(by))

    def _stop(self, by: str) -> None:
        self._check_there()
        new = next_state(self.state, Event.STOP, self.path)
        self._set_stopped(stopped=True, by=by)
        if new is not self.state:
            try:
                self._put_children_away()
            finally:
                self._end(Event.STOP)

    def _put_children_away(self) -> None:
        """Close all below it; what is durable is opened again with it."""
        below = [each for each in self._subtree() if each is not self]
        waiting = [record for each in below for record in (each.snapshot.record, *each.pending) if each.is_durable]
        self.pending = tuple(waiting)
        with ExitStack() as ends:  # one that fails to end keeps no other one here
            for each in self._below():
                ends.callback(self._unregister, each)
                ends.callback(each.close)
