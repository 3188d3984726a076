"""One seed drives a pipeline between two queues: reader group, staged units, promotion, while others take and send, and the broker dies.

The pipeline does what Spark does: it writes down how far a batch goes before it reads it, does the whole batch again after any failure, cut in
another way, and asks again for each promotion whose answer it has not heard. What it knows outlives the broker; all else is the broker's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import GroupError, InDoubtError, ProviderError, ResourceError
from pyjms.spi.replay import GroupRequest, OpenGroup, StageName
from pyjms.testing import VirtualClock
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.stores.volatile import Crash
from tests.provider.keeping.site import ORDERS, consume
from tests.provider.simulation.oracle import ViolationError
from tests.provider.simulation.site import SimulatedSite

BILLS: Final = Address(AddressKind.QUEUE, "bills")
SINK: Final = "sink"
_STEPS: Final = 60
_TO_THE_END: Final = 200
_KEEP_S: Final = 3600


@dataclass(slots=True)
class Checkpoint:
    """What a pipeline has on its own disk."""

    generation: str | None = None
    done: int = 0
    """Up to this number its messages are through."""
    planned: int = 0
    """Up to this number goes the batch that is under way; `done` when there is none."""
    epoch: int = 0


@dataclass(slots=True)
class Sent:
    """What is known of one message."""

    is_sure: bool | None = None
    """Whether it was sent; None: nobody answered, or it was NON_PERSISTENT when the broker died."""
    persistent: bool = True
    is_reserved: bool = False
    taken: bool | None = False
    """Whether somebody else took it; None: nobody answered."""


class PipelineWorld:
    """A run of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.site = SimulatedSite(memory_bytes=self.random.choice([20_000, 10**9]))
        assert isinstance(self.site.clock, VirtualClock)
        self.clock = self.site.clock
        self.checkpoint = Checkpoint()
        self.messages: dict[str, Sent] = {}
        self.read: dict[tuple[str, int], str] = {}
        """What each number was when it was read first."""
        self.log: list[str] = []
        self._numbers = count(1)
        self._opened: OpenGroup | None = None
        self._is_busy = self._is_starting = self._is_inside = self._is_perhaps_released = False
        self.site.trap = self._interfere

    def run(self) -> None:
        """Play all steps, let the pipeline come to its end undisturbed, and judge. Raises `ViolationError`."""
        for _ in range(_STEPS):
            self._guarded(self._step)
        self.site.trap = None
        if self.random.random() < 0.5:
            self._die()
        for _ in range(_TO_THE_END):
            with suppress(InDoubtError):
                self._pipeline()
            self._release_again()
            known = self.checkpoint
            held = any(group.high > known.done for group in self.site.connect().reader_groups().groups())
            if known.planned == known.done and not held and not self._rest(ORDERS):
                break
        self.clock.advance(_KEEP_S * 1000)
        self.site.tend()
        self._judge()

    # Faults

    def _interfere(self, point: str, changes: Changes) -> None:
        chance = self.random.random()
        if chance < 0.05:
            self.log.append(f"crash {point}")
            raise Crash
        if chance < 0.10 and point.startswith("before"):
            self.log.append(f"refuse {point}")
            raise ResourceError("the disk is full")
        if chance < 0.14 and "write" in point and changes.pipelines is not None and not self._is_starting:
            self.log.append(f"no answer {point}")
            raise InDoubtError("nobody answered")
        if chance < 0.40 and not self._is_inside and not self._is_starting:
            self._is_inside = True
            try:
                self._step()
            except ProviderError as error:
                self.log.append(f"… {type(error).__name__}")
            finally:
                self._is_inside = False

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Crash:
            self._die()
        except ProviderError as error:
            self.log.append(f"… {type(error).__name__}")

    def _die(self) -> None:
        self._is_busy, self._opened, self._is_perhaps_released = False, None, False
        for sent in self.messages.values():
            if not sent.persistent and not sent.is_reserved and sent.is_sure:
                sent.is_sure = None
        self.site.journal.crash()
        self._is_starting = True
        while self._is_starting:
            try:
                self.site.start()
            except (Crash, ProviderError) as error:
                self.log.append(f"cannot start: {type(error).__name__}")
            else:
                self._is_starting = False

    # Steps

    def _step(self) -> None:
        steps = [self._send, self._take, self._release, self._tend]
        weights = [5, 1, 1, 1]
        if not self._is_busy:
            steps.append(self._pipeline)
            weights.append(8)
        self.random.choices(steps, weights)[0]()

    def _send(self) -> None:
        text = f"m{next(self._numbers)}"
        sent = self.messages[text] = Sent(persistent=self.random.random() < 0.8)
        self.log.append(f"send {text}, persistent={sent.persistent}")
        try:
            self.site.send(text, delivery_mode=2 if sent.persistent else 1, priority=self.random.choice([4, 4, 9]))
        except InDoubtError:
            raise
        except ProviderError:
            sent.is_sure = False
            raise
        sent.is_sure = True

    def _take(self) -> None:
        """Be somebody else who takes a message."""
        session = self.site.session()
        delivery = consume(session).poll()
        if delivery is not None:
            text = str(delivery.envelope.body)
            self.log.append(f"take {text}")
            sent = self.messages[text]
            if sent.taken:
                raise ViolationError(f"duplicated: {text} was taken already")
            sent.taken = None
            session.acknowledge([delivery])
            sent.taken = True
        session.close()

    def _tend(self) -> None:
        self.clock.advance(self.random.choice([1, 500]))
        self.site.tend()

    def _release(self) -> None:
        """Be the operator, who ends the group while nothing of it is under way."""
        known = self.checkpoint
        if self._is_busy or known.planned != known.done or known.generation is None:
            return
        groups = self.site.connect().reader_groups()
        if any(group.low != known.done for group in groups.groups()):
            return
        self.log.append("release")
        self._is_busy = True
        try:
            groups.release("g")
        except InDoubtError:
            self._is_perhaps_released = True
            raise
        else:
            self._is_perhaps_released = False
        finally:
            self._is_busy = False

    def _release_again(self) -> None:
        """Be the operator who was not answered, and asks again; who has the group open is told that it has gone."""
        if self._is_perhaps_released:
            self._opened = None
            with suppress(GroupError):  # it was released
                self._release()

    # The pipeline

    def _pipeline(self) -> None:
        self._is_busy = True
        try:
            if self.checkpoint.planned == self.checkpoint.done:
                self._plan()
            else:
                self._process()
        except ProviderError:
            self._opened = None
            raise
        finally:
            self._is_busy = False

    def _plan(self) -> None:
        groups, known = self.site.connect().reader_groups(), self.checkpoint
        if self._opened is None or self.random.random() < 0.2:
            self._opened = None
            self._opened = groups.open(GroupRequest(name="g", address=ORDERS))
        group = self._opened.group
        if group.generation != known.generation:
            known.generation, known.done, known.planned = group.generation, group.low, group.low
        if known.done > 0:
            groups.acknowledge(self._opened, known.done)
        high = groups.reserve(
            self._opened, after=known.done, max_messages=self.random.randint(1, 5), max_bytes=None, wait_ms=0
        )
        for number, text in self._range(known.done, high):
            self.messages[text].is_reserved = True
            self.read[group.generation, number] = text
        known.planned = high
        self.log.append(f"plan {known.done}..{high} as epoch {known.epoch}")

    def _range(self, after: int, upto: int) -> list[tuple[int, str]]:
        groups, generation = self.site.connect().reader_groups(), self.checkpoint.generation
        assert generation is not None
        found: list[tuple[int, str]] = []
        while after < upto:
            for message in groups.read("g", generation, after=after, upto=upto):
                found.append((message.number, str(message.envelope.body)))
                after = message.number
        return found

    def _process(self) -> None:
        """Read the batch, stage it in parts, some of them twice, and promote it."""
        known = self.checkpoint
        found = self._range(known.done, known.planned)
        for number, text in found:
            if self.read[known.generation or "", number] != text:
                raise ViolationError(f"number {number} was {self.read[known.generation or '', number]} and is {text}")
        marker = self.site.connect().stages().marker(SINK)
        if marker is not None and marker > known.epoch:
            raise ViolationError(f"epoch {marker} is promoted, and the pipeline is at {known.epoch}")
        if marker != known.epoch:  # else nobody had answered, and it was done
            self._promote(found)
        known.done = known.planned
        known.epoch += 1

    def _promote(self, found: list[tuple[int, str]]) -> None:
        known, cut = self.checkpoint, self.random.randint(0, len(found))
        units = []
        for partition, part in enumerate((found[:cut], found[cut:])):
            attempts = [self._stage(partition, part) for _ in range(self.random.choice([1, 1, 2]))]
            units.append(attempts[-1])
        self.log.append(f"promote epoch {known.epoch}: {[text for _, text in found]}")
        stages = self.site.connect().stages()
        if not stages.promote(SINK, known.epoch, units):  # an earlier attempt, which nobody had answered, has made it
            stages.discard(units)

    def _stage(self, partition: int, part: list[tuple[int, str]]) -> StageName:
        unit = StageName(SINK, self.checkpoint.epoch, partition, str(next(self._numbers)))
        session = self.site.session(transacted=True)
        for _, text in part:
            self.site.send(text, session, BILLS)
        session.stage(unit, keep_s=_KEEP_S)
        return unit

    # The end

    def _rest(self, address: Address) -> list[str]:
        return self.site.texts(address)

    def _judge(self) -> None:
        if units := self.site.connect().stages().units():
            raise ViolationError(f"units that nobody has discarded: {units}")
        if waiting := self._rest(ORDERS):
            raise ViolationError(f"stuck: {waiting}")
        through = Counter(text for text, _ in self.site.drain(BILLS))
        for text in through - Counter(self.messages.keys()):
            raise ViolationError(f"duplicated: {text} came out {through[text]} times")
        for text, sent in self.messages.items():
            is_out = bool(through[text])
            if is_out and (sent.is_sure is False or sent.taken):
                raise ViolationError(f"phantom: {text} came out, and {'was taken' if sent.taken else 'was never sent'}")
            must = sent.is_reserved or (sent.is_sure and sent.taken is False)
            if must and not is_out:
                raise ViolationError(f"lost: {text}")
