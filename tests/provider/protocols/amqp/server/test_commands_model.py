"""A transacted session against a model: any sequence of messages, acknowledgements and commands, whose connection is lost at any moment."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyjms_provider.amqp.envelope import write_envelope
from pyjms_provider.amqp.performatives import ACCEPTED, Accepted, Answered, Attach, Rejected, Source, Target
from pyjms_provider.protocols.amqp.link import DeliveryReceived, IncomingDelivery, OutgoingDelivery
from pyjms_provider.protocols.profile.answers import UnitsListed
from pyjms_provider.protocols.profile.commands import AbortTransaction, ListUnits
from tests.provider.helpers import make_envelope
from tests.provider.protocols.amqp.server.bench import Bench, Client, ClientSession, bench_on, ready, said, texts


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that a client has said in its transacted session."""

    name: str
    text: str = ""
    is_settled: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What the broker has: the queue, the staged units with their sizes, and the open transaction."""

    queue: tuple[str, ...] = ()
    staged: frozenset[tuple[str, int]] = frozenset()
    sent: tuple[str, ...] = ()
    accepted: frozenset[str] = frozenset()
    is_spoiled: bool = False

    def rolled_back(self) -> State:
        return State(self.queue, self.staged)

    def after(self, each: Said) -> State:
        """Return the state after the broker has done it, as docs/reference/amqp.md says."""
        match each.name:
            case "send":
                return State(self.queue, self.staged, (*self.sent, each.text), self.accepted, self.is_spoiled)
            case "accept":
                return State(self.queue, self.staged, self.sent, self.accepted | {each.text}, self.is_spoiled)
            case "nonsense":
                is_spoiled = self.is_spoiled or each.is_settled
                return State(self.queue, self.staged, self.sent, self.accepted, is_spoiled)
            case "abort":
                return self.rolled_back()
        if self.is_spoiled:
            # A settled COMMIT or STAGE that fails is itself a settled command that fails: the next transaction tells it.
            return State(self.queue, self.staged, is_spoiled=each.is_settled)
        if self.is_refused(each):
            return State(self.queue, self.staged, self.sent, self.accepted, each.is_settled)
        left = tuple(text for text in self.queue if text not in self.accepted)
        if each.name == "stage":
            return State(left, self.staged | {(each.text, len(self.sent))})
        return State((*left, *self.sent), self.staged)

    def answer(self, each: Said) -> type[object]:
        """Return the kind of the answer to it."""
        if each.name == "send":
            return Accepted
        is_refused = self.is_refused(each) or (each.name in ("commit", "stage") and self.is_spoiled)
        return Rejected if is_refused else Answered

    def is_refused(self, each: Said) -> bool:
        """Return whether it is refused without an effect; a staged unit has no acknowledgements."""
        return each.name == "nonsense" or (each.name == "stage" and bool(self.accepted))


def _message(text: str) -> bytes:
    return write_envelope(make_envelope(text, persistent=True), now_ms=0, delivery_count=0)


def _command(each: Said) -> bytes:
    headers = {"sink": "s", "epoch": "1", "partition": "0", "attempt": each.text, "keep": "60"}
    return said(each.name.upper(), headers if each.name == "stage" else {})


class Line:
    """One connection of the client, with what it has said and the broker has not answered."""

    def __init__(self, bench: Bench) -> None:
        self.client = Client(bench)
        self.session = self.client.session()
        self.unanswered: deque[tuple[Said, OutgoingDelivery | None]] = deque()
        self.held: deque[IncomingDelivery] = deque()
        # All links are there before the first event: from then on nothing is waited for.
        self.session.send("first")
        self.session.do(AbortTransaction(session="x"))
        self.session.consume()

    # What happens

    def say(self, each: Said) -> None:
        """Send a message or a command."""
        if each.name == "send":
            delivery = self.session.send_data(_message(each.text), settled=each.is_settled)
        else:
            delivery = self.session.say(_command(each), settled=each.is_settled)
        self.unanswered.append((each, None if each.is_settled else delivery))

    def accept(self) -> None:
        """Accept the oldest message that the client holds."""
        if self.held:
            delivery = self.held.popleft()
            self.session.session.update_incoming((delivery,), ACCEPTED)
            self.unanswered.append((Said("accept", texts([delivery])[0], is_settled=True), None))

    def flow(self) -> None:
        """Have the broker receive what the client has written."""
        self.client.engine.received(self.client.machine.take())

    def work(self) -> None:
        """Do the broker's next job."""
        if self.client.transport.jobs:
            self.client.transport.jobs.pop(0)()

    def pull(self) -> None:
        """Have the client receive what the broker has written."""
        self.client.events += self.client.machine.receive(bytes(self.client.engine.pull(65_536)))

    # What is told of it

    def hear(self, state: State) -> State:
        """Return the state after all that was answered; each answer must be that of the model."""
        for came in self.client.of(DeliveryReceived):
            assert texts([came.delivery]) not in [texts([held]) for held in self.held], "it is held already"
            self.held.append(came.delivery)
        self.client.events = [each for each in self.client.events if not isinstance(each, DeliveryReceived)]
        answered = [place for place, (_, sent) in enumerate(self.unanswered) if sent is not None and sent.is_settled]
        # An answer says that all before it is done, too.
        for _ in range(answered[-1] + 1 if answered else 0):
            each, sent = self.unanswered.popleft()
            if sent is not None:
                (told,) = self.session.states(sent)
                assert type(told) is state.answer(each), (each, told)
            state = state.after(each)
        return state

    def cut(self, state: State) -> list[State]:
        """Lose the connection; return the states in which the broker may be: the client knows only what was answered."""
        self.client.hang_up()
        states = accumulate((each for each, _ in self.unanswered), State.after, initial=state)
        return [each.rolled_back() for each in states]


def seen(bench: Bench) -> State:
    """Return what another client sees."""
    session = ready(bench, transacted=False)
    units = UnitsListed.read(session.do(ListUnits())).units
    queue = browsed(session)
    session.client.hang_up()
    return State(queue, frozenset((unit.name.attempt, unit.messages) for unit in units))


def browsed(session: ClientSession) -> tuple[str, ...]:
    link = session.session.receiver("browser")
    source = Source("orders", capabilities=("queue",), distribution_mode="copy")
    link.attach(Attach("", 0, True, source=source, target=Target()))
    session.client.settle()
    link.give_credit(100)
    return tuple(texts(session.received()))


settled = st.booleans()
events = st.one_of(
    st.tuples(st.sampled_from(["send", "send", "commit", "commit", "stage", "abort", "nonsense"]), settled),
    st.tuples(st.sampled_from(["accept", "accept", "accept", "flow", "work", "pull", "settle", "cut"])),
)
FIRST = ("a", "b", "c", "d", "e")
"""What is in the queue at the beginning."""


SPOILED_AND_CUT = [
    *(("send", False), ("accept",), ("nonsense", True), ("commit", False), ("settle",)),
    *(("send", False), ("accept",), ("commit", False), ("settle",), ("send", True), ("stage", False), ("settle",)),
    *(("send", True), ("accept",), ("commit", True), ("flow",), ("cut",)),
    *(("accept",), ("stage", True), ("commit", False), ("commit", False), ("flow",), ("work",), ("cut",)),
]
"""A transaction that is rolled back, one that is committed, one that is staged, and some of which the client hears nothing."""


@settings(max_examples=25)
@example(SPOILED_AND_CUT)
@given(st.lists(events, min_size=10, max_size=40))
def test_whatever_is_said_and_cut_the_broker_has_what_it_answered(happens: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as directory:
        bench = bench_on(Path(directory))
        other = ready(bench, transacted=False)
        for text in FIRST:
            other.send(text)
        other.client.hang_up()
        state, line = State(FIRST), Line(bench)
        for number, (name, *is_settled) in enumerate([*happens, ("cut",)]):
            match name:
                case "cut":
                    possible = line.cut(line.hear(state))
                    state = seen(bench)
                    assert state in possible
                    line = Line(bench)
                case "settle":
                    line.client.settle()
                    state = line.hear(state)
                case "accept" | "flow" | "work" | "pull":
                    getattr(line, name)()
                    state = line.hear(state)
                case _:
                    line.say(Said(name, str(number), *is_settled))
        bench.close()
