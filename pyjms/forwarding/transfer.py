"""The loop of a route: receive at the source, send and commit at the targets, commit at the source.

After any crash between the two commits, the source redelivers the message, and the target drops the duplicate. While a
site is unreachable the batch is held, not released: no message overtakes it, and no extra delivery is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from pyjms.forwarding.settings import AdaptiveBatchSize, Guarantee, RouteCounters, RouteSettings, Site, Target
from pyjms.forwarding.sites import RouteConnection, Sink, Source, duplicate_property_of, is_refusal
from pyjms.forwarding.unit import Copy, Plan, UndeliverableError, Unit, make_unit, undeliverable
from pyjms.spi.clock import Clock, Delays, Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError, ResourceError, RolledBackError
from pyjms.spi.provider import ProviderSession
from pyjms.spi.routes import RouteError, RouteState


class Transfer:
    """One route. `run` is its one thread; `halt`, `pause` and `resume` may be called from any."""

    def __init__(
        self,
        settings: RouteSettings,
        plan: Plan,
        targets: Callable[[], Iterable[Target]],
        clock: Clock,
    ) -> None:
        """`targets` returns all targets that `plan` may currently name."""
        self.settings = settings
        self._plan = plan
        self._targets = targets
        self._clock = clock
        self._signal = Signal()
        # No lock guards these two: each is written by one assignment, and the route's thread checks both whenever the
        # signal wakes it.
        self._is_over = self._is_paused = False
        self._here = settings.source.site
        self.counters = RouteCounters(clock)
        self._source = Source(settings, self._link(self._here), clock, self._signal, self._must_wait, self._receives)
        self._sinks: dict[Site, Sink] = {}
        self._batch_size = AdaptiveBatchSize()
        # The jitter has its own random numbers: the module's generator may have been seeded by the program, as by
        # Hypothesis.
        self._delays = Delays(settings.back_off, Random().random)  # noqa: S311

    def _link(self, site: Site) -> RouteConnection:
        return RouteConnection(site, self._clock, self._signal.set)

    def _must_wait(self) -> bool:
        return self._is_over or self._is_paused

    # Any thread

    def halt(self) -> None:
        """Make `run` return at its next check."""
        # The flag is set before the signal: otherwise the route's thread would wake, find nothing changed and sleep
        # again.
        self._is_over = True
        self._signal.set()

    def abort(self) -> None:
        """Also make calls return that wait for a site."""
        self.halt()
        # The sinks are copied, as the route's thread may add one meanwhile; that one is ended where it is added.
        for link in [self._source.link, *(sink.link for sink in list(self._sinks.values()))]:
            link.end()

    def set_paused(self, paused: bool) -> None:
        """Pause or resume receiving."""
        self._is_paused = paused
        self._signal.set()

    # The thread of the route

    def run(self) -> None:
        """Move messages until `halt`. Raises `RouteError` when a retry cannot help."""
        try:
            while not self._is_over:
                if self._is_paused:
                    # A paused route releases its messages, so that other consumers of the queue can have them.
                    self._source.close()
                    self.counters.state = RouteState.PAUSED
                    self._clock.wait(self._signal, None)
                    continue
                self._move_some()
        except ProviderError as error:
            self.counters.failed(error.reason)
            raise
        finally:
            self._source.close()
            for sink in self._sinks.values():
                sink.link.drop()

    def _move_some(self) -> None:
        """Move one batch."""
        # Computed for each batch: the rules of a router may have been replaced, and name a target at another site for
        # the first time.
        self._source.gives_ids = any(target.site != self._here for target in self._targets())
        try:
            batch = self._source.take()
        # A RouteError is a ProviderError, too, but permanent: it ends the route.
        except RouteError:
            raise
        except ProviderError as error:
            self._source.close()
            self._wait(self._here, error)
            return
        self.counters.state = RouteState.RUNNING
        if batch and not self._forward_batch(batch):
            self._source.release(batch)
        self.counters.waiting = 0

    def _receives(self) -> None:
        self.counters.has_begun = True
        self.counters.state = RouteState.RUNNING
        self._find_guarantee()

    def _find_guarantee(self) -> None:
        """Set the route's guarantee, once all sites of the targets are known."""
        sinks = self._sinks.values()
        is_known = all(sink.link.is_known for sink in sinks) if sinks else not self._source.gives_ids
        if is_known and self.counters.guarantee is None:
            self.counters.guarantee = Guarantee.ONCE_ONLY

    def _forward_batch(self, batch: list[Delivery]) -> bool:
        """Deliver a batch to its targets and settle it at the source; return False if the rest must wait for another
        time.
        """
        self.counters.waiting = len(batch)
        while batch:
            settings = self.settings
            # The unit is planned again in each iteration, as the rules or the targets may have changed while the route
            # waited.
            unit = make_unit(batch, self._plan, settings.name, settings.hops_max, self._clock.time_ms())
            try:
                is_over = self._forward_unit(unit, batch)
            finally:
                # Whatever ended the attempt, the sinks must remember what they have committed: the source redelivers
                # those messages.
                self._expect_redelivery(unit)
            if is_over is not None:
                return is_over
        return True

    def _forward_unit(self, unit: Unit, batch: list[Delivery]) -> bool | None:
        """Deliver the planned copies of each message of the batch; None: plan the rest of the batch again."""
        while True:
            for site, copies in unit.copies.items():
                # The other sites commit before the source does (decision 0900). After a crash in between, the batch is
                # redelivered, and they drop duplicates by the ids; the other order would lose the batch.
                if site != self._here and not self._deliver(site, copies):
                    return False
            try:
                # Messages to queues of the source's own site need no ids: they are in one transaction with the
                # acknowledgement.
                is_settled = self._settle_in_parts(unit, batch)
            except RolledBackError as error:
                self._batch_size.failed(len(batch))
                self._recover(batch, error)
                return True  # the site redelivers them by itself
            except RouteError:
                raise
            except ProviderError as error:
                self._source.close()
                self._wait(self._here, error)
                return True
            if is_settled:
                return True
            # The error is not passed on, as the counters have it already.
            if not self._wait(self._here, None):
                return False
            if self.settings.undeliverable is None:
                return None  # an operator may have repaired it by changing the plan, or the target

    def _expect_redelivery(self, unit: Unit) -> None:
        """Tell the sites which messages of a unit were not settled: they will be redelivered."""
        for site, copies in unit.copies.items():
            if site in self._sinks:
                self._sinks[site].expect_redelivery(copies)

    def _deliver(self, site: Site, copies: list[Copy]) -> bool:
        """Deliver all copies to another site, however long it is unreachable; return False if the route must stop
        meanwhile.
        """
        sink = self._sink(site)
        while True:
            # An attempt that delivered a part of the batch counts as progress: the pause after it is short.
            sent = sink.sent
            try:
                self._judge(sink, copies)
                sink.deliver(copies)
            except RouteError:
                raise
            except ProviderError as error:
                if sink.sent > sent:
                    self._delays.reset()
                if not self._wait(site, error):
                    return False
            else:
                self._came_through()
                return True

    def _sink(self, site: Site) -> Sink:
        sink = self._sinks.get(site)
        if sink is None:
            sink = self._sinks[site] = Sink(self._link(site), self.settings.attempts)
            # The new site may not detect duplicates; the guarantee is unknown again until it has been reached.
            if self.counters.guarantee is Guarantee.ONCE_ONLY:
                self.counters.guarantee = None
            # The sink is registered before this check: abort either finds it in the table, or has set the flag that
            # is read here.
            if self._is_over:
                sink.link.end()
        return sink

    def _judge(self, sink: Sink, copies: Iterable[Copy]) -> None:
        """Determine the guarantee at this site. Raises `RouteError` if it is too weak."""
        # An open connection was checked when it was made.
        if sink.link.is_open:
            return
        # Only a connected provider tells its name, which determines duplicate detection. A route that requires more is
        # refused here, before it sends anything.
        sink.link.session()
        known = duplicate_property_of(sink.link.provider_name)
        for target in {copy.outgoing.target for copy in copies}:
            if target.duplicate_property is None and known is None:
                self.counters.guarantee = Guarantee.AT_LEAST_ONCE
                if self.settings.require is Guarantee.ONCE_ONLY:
                    raise RouteError(
                        f"the route must deliver once only, and {sink.link.provider_name} at {target.site.url} finds no "
                        "duplicates: choose another target, name its duplicate_property if it has one, or require "
                        f"'{Guarantee.AT_LEAST_ONCE.value}'"
                    )
        self._find_guarantee()

    def _came_through(self) -> None:
        self._delays.reset()
        self.counters.state = RouteState.RUNNING

    def _wait(self, site: Site, error: ProviderError | None) -> bool:
        """Wait before the next attempt; return False if the route must stop or pause instead."""
        if error is not None and not self._is_over:
            self.counters.attempt_failed(f"{site.url}: {error.reason}")
        until_ms = self._clock.monotonic_ms() + self._delays.next_ms()
        while not self._must_wait() and self._clock.wait(self._signal, until_ms):
            pass  # a message arrived, or a connection ended: neither shortens the wait
        return not self._must_wait()

    # At the source's site

    def _settle_in_parts(self, unit: Unit, batch: list[Delivery]) -> bool:
        """Settle a unit, and remove its settled part from it and from the batch; return False if the rest must be tried
        again.

        In one transaction, or in several if a queue here has no room for the whole unit.
        """
        while unit.items:
            # A queue here may have no room for the whole batch: then it is settled in smaller transactions.
            part = unit.first(self._batch_size.most)
            if self._settle(part):
                self._batch_size.succeeded()
                del batch[: len(part.items)]
                unit.drop(part)
            # The size was not halved, so a smaller part would not help: it was a single message, or the error is not
            # about room.
            elif len(part.items) <= self._batch_size.most:
                return False
        return True

    def _settle(self, unit: Unit) -> bool:
        """Settle a unit at the source, in one transaction; return False if it must be tried again."""
        session = self._source.link.session()
        # A copy that was delivered to this site was refused: its message goes to the undeliverable queue instead.
        here = [copy for copy in unit.copies.get(self._here, ()) if not copy.is_done]
        try:
            for copy in here:
                session.send(copy.envelope(None))
            refused = [item for item in unit.items if item.refused is not None]
            for item in refused:
                self._set_aside(session, item.delivery, item.refused)
            # Expired messages are acknowledged like all others, although they were sent nowhere.
            session.acknowledge(unit.deliveries)
        except (RolledBackError, RouteError):
            raise
        except ProviderError as error:
            # A broken connection has lost its transaction: there is nothing to roll back, and the next one receives the
            # batch again.
            if self._source.link.problem is not None:
                raise
            session.rollback()
            # After a rollback the deliveries are still this session's, so the same batch is tried again and keeps its
            # place in the queue.
            if isinstance(error, ResourceError) and self._batch_size.failed(len(unit.items)):
                return False
            self.counters.attempt_failed(f"{self._here.url}: {error.reason}")
            if is_refusal(error):
                # The error names no message, so each is tried alone.
                self._find_refused(session, here)
            return False
        session.commit()
        self._settled(unit, len(here), len(refused))
        return True

    def _set_aside(self, session: ProviderSession, delivery: Delivery, why: UndeliverableError | None) -> None:
        assert why is not None
        name = self.settings.undeliverable
        if name is None:
            raise ProviderError(f"a message cannot be delivered, and there is no queue for such: {why.reason}")
        address = Address(AddressKind.QUEUE, name)
        session.send(undeliverable(delivery.envelope, address, self.settings.name, why.target, why.reason))

    def _find_refused(self, session: ProviderSession, copies: Iterable[Copy]) -> None:
        """Try each send alone, without a commit, to find the refused ones."""
        for copy in copies:
            try:
                session.send(copy.envelope(None))
            except ProviderError as error:
                if not is_refusal(error):
                    raise
                copy.is_done = True
                # The next attempt sends it to the undeliverable queue, in the transaction that acknowledges it.
                copy.item.refused = UndeliverableError(error.reason, str(copy.outgoing.target))
            session.rollback()

    def _settled(self, unit: Unit, sent_here: int, refused: int) -> None:
        self._came_through()
        # Pieces for other sites count here, too, once the source has committed: an earlier count would include a
        # repeated batch twice.
        sent = sent_here + sum(len(copies) for site, copies in unit.copies.items() if site != self._here)
        self.counters.settled(len(unit.items) - refused - unit.expired, sent, refused, unit.expired)

    def _recover(self, batch: list[Delivery], error: ProviderError) -> None:
        """Release everything and receive it again: the transaction at the source was rolled back."""
        self.counters.attempt_failed(f"{self._here.url}: {error.reason}")
        try:
            # Not `recover`: the commit did not fail because of the messages, which would be dead-lettered after ten
            # such failures.
            self._source.link.session().give_back_unseen([*batch, *self._source.unsettled()])
            # Messages not handed out yet were released as well, as they would overtake the batch otherwise.
            self._source.forget()
        except ProviderError:
            self._source.close()
