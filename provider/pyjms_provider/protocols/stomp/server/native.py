"""The handler of pyjms clients: each command is one call of the SPI at the broker.

docs/reference/stomp.md specifies the commands. Those of one session are done in order, different sessions side by side; commands of the
connection as a whole have an order of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import Address, Envelope, MessageId
from pyjms.spi.errors import ClosedError, ProviderError, ResourceError
from pyjms.spi.fast_paths import FAST_PATHS
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.selector import selector_or_none
from pyjms_provider.core.host.temporaries import TemporaryEndedError
from pyjms_provider.protocols.engine import RemoteJob
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import (
    Created,
    Drained,
    Found,
    Sent,
)
from pyjms_provider.protocols.profile.commands import named, read_delivery_ids
from pyjms_provider.protocols.profile.greeting import greeting_of
from pyjms_provider.protocols.profile.handlers import Handlers, RegistrationCommands, SessionCommands
from pyjms_provider.protocols.profile.pipelines import LONG_VERBS, PIPELINE_COMMANDS, ServedPipelines
from pyjms_provider.protocols.scheduling import SerialExecutor, SessionScheduler
from pyjms_provider.protocols.stomp.codec import PROFILE_HEADER
from pyjms_provider.protocols.stomp.command_frames import error_frame, limits_of, read_command, receipt_frame
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import ProfileError, StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER, PACKED_VERSION
from pyjms_provider.protocols.stomp.server.contracts import FrameTask, ProtocolHandler
from pyjms_provider.protocols.stomp.server.native_consumers import CreditConsumer, ServedBrowser, ServedConsumer
from pyjms_provider.protocols.stomp.server.native_pages import send_page
from pyjms_provider.protocols.stomp.server.native_sessions import NativeFastFrames, PackedSends, ServedSession
from pyjms_provider.protocols.stomp.server.standard import without_provider_properties

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.hosts import Guard
    from pyjms_provider.protocols.profile.commands import DeliveryIds
    from pyjms_provider.protocols.stomp.server.contracts import Engine
    from pyjms_provider.protocols.stomp.server.login import Login

_END: Final = b"\0"
_SEND, _SENDS, _ACK, _DISCONNECT = "SEND", "SENDS", "ACK", "DISCONNECT"
_LOCAL: Final = (commands.OpenSession, commands.CreateTemporary, commands.DeleteTemporary)
"""What concerns this process alone, also where most commands ask others; frames that follow name what the first two make."""
_is_plain = re.compile(r"[A-Za-z0-9.\-]+").fullmatch


class NativeHandler(ProtocolHandler):
    """Handles the frames of one pyjms client."""

    def __init__(self, engine: Engine, connection: ProviderConnection, guard: Guard, login: Login) -> None:
        super().__init__(engine, connection, guard)
        self.is_packed = login.is_packed
        """Whether messages go both ways in the packed form of stores, several in a frame."""
        self._sends = PackedSends(self, guard)
        self._client_id = login.client_id
        self._settings = engine.service.settings
        self._clock = engine.service.clock
        self._waits = guard.host.writes
        self._asks_others = guard.host.asks_others
        # Commands of the connection, and those of data pipelines,
        # have an order of their own beside those of the sessions.
        self._executor = self._new_executor()
        self._pipeline_executor = (
            self._new_executor()
        )  # a reservation waits for messages, and must hold up nothing else
        self._sessions: dict[str, ServedSession] = {}
        self.fast_frames = (
            NativeFastFrames(self, self._sessions, self._sends) if FAST_PATHS and self.is_packed else None
        )
        self._consumers: dict[str, CreditConsumer] = {}
        self._temporaries: set[Address] = set()
        self.delivery_numbers = count(1)
        self._message_numbers = count(1)
        self._message_prefix = f"ID:{connection.connection_id}-"
        self._receipts: dict[str, Mapping[str, str]] = {}
        """The additional headers of RECEIPTs for commands under way."""
        self._pipelines = ServedPipelines(connection, guard, lambda: self._client_id or "")
        self._commands: Handlers = {
            commands.Identify: (self._identify, False),
            commands.Start: (self._start, False),
            commands.Stop: (self._stop, False),
            commands.CreateTemporary: (self._create_temporary, False),
            commands.DeleteTemporary: (self._delete_temporary, False),
            commands.OpenSession: (self._open_session, False),
            commands.CloseSession: (self._close_session, True),
            commands.Browse: (self._browse, False),
            commands.Find: (self._find, False),
            commands.Unsubscribe: (self._unsubscribe, True),
            commands.DeleteSubscription: (self._delete_subscription, True),
            commands.Acknowledge: (self._acknowledge, True),
            commands.GiveBack: (self._give_back, True),
            commands.Retry: (self._retry, True),
            commands.Reject: (self._reject, True),
            commands.Adopt: (self._adopt, False),
            commands.ReadGroup: (self._read_page, True),
            **SessionCommands(lambda name: self._session(name).unit).handlers(),
            **RegistrationCommands(connection).handlers(),
            **self._pipelines.handlers(),
        }

    def _new_executor(self) -> SerialExecutor[FrameTask]:
        return SerialExecutor(self.engine.transport, self.perform, self.engine.fail, self.backlog)

    # ProtocolHandler

    def greeting(self) -> Mapping[str, str]:
        connection = self.connection
        body_max = limits_of(is_packed=self.is_packed).body_max
        greeting = greeting_of(connection, self.guard.host, body_max=body_max)
        packed = {PACKED_HEADER: PACKED_VERSION} if self.is_packed else {}
        return {"session": str(connection.connection_id), **packed, **greeting.headers()}

    def take(self, frame: Frame) -> None:
        # Its RECEIPT follows that of every earlier frame, in any order of execution.
        if frame.command == _DISCONNECT:
            executors = [
                self._executor,
                self._pipeline_executor,
                *(session.executor for session in tuple(self._sessions.values())),
            ]
            self.leave(frame, executors, self._disconnect, may_wait=self._waits)
            return
        # First, as most frames are one of these two, and need no task.
        if frame.command == _SENDS and self.is_packed:
            session = self._sessions.get(frame.headers.get("session", ""))
            if session is not None:
                self._sends.take(frame, session)
                return
        elif frame.command == _ACK and self._acknowledge_at_once(frame):
            return
        executor = self._executor_of(frame)
        try:
            task = self._task_of(frame)
        except (ProviderError, StompError) as error:
            # In its turn, so that answers come in the order of the frames.
            task = FrameTask(frame, partial(_fail_with, error), may_wait=False)
        if task is not None:
            executor.add(task)

    def _acknowledge_at_once(self, frame: Frame) -> bool:
        """Acknowledge, if no earlier frame of the session is pending and it need not wait; return whether it was done."""
        headers = frame.headers
        session, text = self._sessions.get(headers.get("session", "")), headers.get("ids")
        # Only where nothing of the session waits or runs: settling is done in the order of its frames.
        if session is None or text is None or not session.executor.is_idle or self.is_over:
            return False
        try:
            ids = read_delivery_ids(text)
            # A write would hold up all connections of the loop: it goes the way of tasks.
            if self._waits and session.waits_for(ids):
                return False
            session.acknowledge(ids)
        except (ProviderError, StompError) as error:
            self.refuse(frame, error)
        else:
            if (receipt := frame.receipt) is not None:
                self.confirm(frame, receipt)
        return True

    def _executor_of(self, frame: Frame) -> SerialExecutor[FrameTask]:
        headers = frame.headers
        session = self._sessions.get(headers.get("session", ""))
        # UNSUBSCRIBE may name the consumer alone; it is done in the order of that consumer's session.
        if session is None and frame.command == "UNSUBSCRIBE":
            consumer = self._consumers.get(headers.get("id", ""))
            session = None if consumer is None else consumer.session
        if session is None and frame.command in PIPELINE_COMMANDS:
            return self._pipeline_executor
        return self._executor if session is None else session.executor

    def _task_of(self, frame: Frame) -> FrameTask | None:
        """Return the task of a frame; None: it has been done at once."""
        if frame.command == _SEND:
            session = self._session_of(frame)
            envelope = self._read(frame)
            may_wait = session.session.may_wait(envelope)
            is_brief = may_wait and self.guard.host.waits_briefly(envelope)
            task = FrameTask(frame, partial(self._send, session, envelope, frame), may_wait, is_brief)
            # A task that does not wait now may have to when its turn comes: the queue may be full by then.
            if not is_brief and (may_wait or not session.executor.is_idle):
                task.is_patient = self.guard.host.may_wait_for_room(envelope.destination)
            return task
        if frame.command == _SENDS and self.is_packed:
            self._session_of(frame)  # which says that there is none
        command = read_command(frame)
        # Done at once: in its turn it would wait behind the very task that it is to end.
        if isinstance(command, commands.Interrupt):
            if command.session not in self._sessions and "receipt" not in frame.headers:
                # The session was closed while the frame was on its way.
                return None
            # Not through the session's executor: the task that waits there is the one to be ended.
            self._session(command.session).session.end_waits()
            if "receipt" in frame.headers:
                self.answer(frame.headers["receipt"], {})
            return None
        # Done at once, as credit has no order with the commands of its session, which may wait for the disk.
        if isinstance(command, commands.Credit):
            consumer = self._consumers.get(command.subscription)
            if consumer is None:
                # It has ended while this was on its way, as a browser does; what takes credit back is answered all the same.
                if (receipt := frame.headers.get("receipt")) is None:
                    return None
                if not (command.revoke or command.drain):
                    raise ClosedError(f"there is no consumer {command.subscription[:80]!r}")
                self.answer(receipt, Drained(0).headers())
                return None
            consumer.add_credit(command, frame.headers.get("receipt"))
            return None
        if isinstance(command, commands.Subscribe):
            # Registered now and made in its turn: CREDIT, which is not queued, must find it.
            consumer = self._new_consumer(command)
            return FrameTask(
                frame, partial(self._subscribe, command, consumer), self._waits or command.selector is not None
            )
        do, waits = self._commands[type(command)]
        waits = waits or (self._asks_others and not isinstance(command, _LOCAL))
        # A long selector takes seconds to be parsed, so not on the thread of all connections.
        may_wait = (waits and (self._waits or type(command) in LONG_VERBS)) or getattr(
            command, "selector", None
        ) is not None
        is_brief = False
        if may_wait and isinstance(command, (commands.Acknowledge, commands.CommitTransaction)):
            session = self._session(command.session)
            is_brief = session.unit.is_small and self.guard.host.waits_briefly(None)
            if isinstance(command, commands.Acknowledge):
                may_wait = session.waits_for(command.ids)
                if may_wait and not session.unit.is_open and "receipt" not in frame.headers:
                    return self._acknowledge_late(frame, session, command, is_brief=is_brief)
        is_patient = isinstance(command, commands.ReserveMessages) and command.wait_ms > 0
        task = FrameTask(frame, partial(self._do, frame, do, command), may_wait, is_brief, is_patient=is_patient)
        host = self.guard.host
        if may_wait and host.has_remote and isinstance(command, commands.Acknowledge):
            start = partial(self._session(command.session).begin_acknowledge, host, command.ids)
            task.remote = RemoteJob(start, partial(self._acknowledged, frame))
        return task

    def _acknowledged(self, frame: Frame, error: BaseException | None) -> None:
        """Answer an acknowledgement that another process has done."""
        if self.is_over:
            return
        if error is None:
            if (receipt := frame.receipt) is not None:
                self.confirm(frame, receipt)
        elif isinstance(error, (ProviderError, StompError)):
            self.refuse(frame, error)
        else:
            raise error

    def _acknowledge_late(
        self, frame: Frame, session: ServedSession, command: commands.Acknowledge, *, is_brief: bool
    ) -> FrameTask | None:
        """Acknowledge without a RECEIPT: acknowledgements that arrive together are written together."""
        if session.joins(command.ids):
            return None
        # A list, which grows until the task runs: `joins` adds the ids of later frames.
        numbers = list(command.ids)
        task = FrameTask(frame, lambda: session.acknowledge(tuple(numbers), is_reported=False), True, is_brief)
        session.late = task, numbers
        return task

    def _do(self, frame: Frame, do: Callable[[Any], Mapping[str, str] | None], command: commands.Command) -> None:
        headers = do(command)
        receipt = frame.headers.get("receipt")
        if headers and receipt is not None:
            self._receipts[receipt] = headers

    def confirm(self, frame: Frame, receipt: str) -> None:
        if frame.command == _SENDS and _is_plain(receipt):
            self.engine.emit_encoded(f"RECEIPT\nreceipt-id:{receipt}\n\n\0".encode())
            return
        self.engine.emit(receipt_frame(receipt, self._receipts.pop(receipt, None)))

    def refuse(self, frame: Frame, error: ProviderError | StompError) -> None:
        """Answer with ERROR; the connection goes on."""
        receipt = frame.headers.get("receipt")
        session = self._sessions.get(frame.headers.get("session", ""))
        # A message that no client can receive any more does not spoil the transaction: it would have been deleted with its
        # destination before the commit.
        spoils = receipt is None and not isinstance(error, TemporaryEndedError)
        if spoils and session is not None:
            # No call waits for this answer, but COMMIT raises the error.
            session.unit.spoil(error if isinstance(error, ProviderError) else ProviderError(error.reason))
        self.engine.emit(error_frame(error, receipt))
        # This may run on a worker's thread: the loop has to write the answer.
        self.engine.transport.wake()

    def answer(self, receipt: str, headers: Mapping[str, str]) -> None:
        """Answer a frame whose answer had to wait for more than its execution."""
        self.engine.emit(receipt_frame(receipt, headers))
        self.engine.transport.wake()

    def run(self) -> None:
        for executor in (self._executor, self._pipeline_executor):
            if executor.has_waiting:
                executor.run()
        for session in tuple(self._sessions.values()):
            if session.executor.has_waiting:
                session.executor.run()

    def end(self) -> None:
        super().end()
        self._executor.clear()
        self._pipeline_executor.clear()
        for session in tuple(self._sessions.values()):
            session.executor.clear()
            # A task that waits for room holds a worker's thread, and its answer can no longer be written.
            session.session.end_waits()

    # The connection

    def _disconnect(self) -> None:
        for name in list(self._sessions):
            self._close_session(commands.CloseSession(session=name))
        # Before the answer: the client id is free once `close` has returned.
        self.connection.close()

    def _identify(self, command: commands.Identify) -> None:
        self.connection.set_client_id(command.client_id)
        self._client_id = command.client_id

    def _start(self, _: commands.Start) -> None:
        self.connection.start()
        for consumer in tuple(self._consumers.values()):
            consumer.on_ready()

    def _stop(self, _: commands.Stop) -> None:
        self.connection.stop()
        for consumer in tuple(self._consumers.values()):
            # Messages that a worker has fetched, and that are not written yet, go back: nothing is delivered after the answer to
            # STOP.
            if isinstance(consumer, ServedConsumer):
                consumer.stopped()

    def _create_temporary(self, command: commands.CreateTemporary) -> Mapping[str, str]:
        if len(self._temporaries) >= self._settings.temporaries_max:
            raise ResourceError(f"a connection may have {self._settings.temporaries_max} temporary destinations here")
        address = self.connection.create_temporary(command.kind)
        # Made first, since the check needs the address that the broker gives it.
        try:
            self.guard.create(address)
        except ProviderError:
            self.connection.delete_temporary(address)
            raise
        self._temporaries.add(address)
        return Created(address).headers()

    def _delete_temporary(self, command: commands.DeleteTemporary) -> None:
        self.connection.delete_temporary(command.address)
        self._temporaries.discard(command.address)

    # Sessions

    def _session(self, name: str) -> ServedSession:
        found = self._sessions.get(name)
        if found is None:
            raise ClosedError(f"there is no session {name[:80]!r}: it was closed")
        return found

    def _session_of(self, frame: Frame) -> ServedSession:
        name = frame.headers.get("session")
        if name is None:
            raise ProfileError(f"{frame.command} needs the header session", receipt=frame.headers.get("receipt"))
        return self._session(name)

    def _open_session(self, command: commands.OpenSession) -> None:
        if command.session in self._sessions:
            raise ProfileError(f"there is a session {command.session[:80]!r} already")
        if len(self._sessions) >= self._settings.sessions_max:
            raise ResourceError(f"a connection may have {self._settings.sessions_max} sessions here")
        session = self.connection.open_session(transacted=command.transacted)
        self._sessions[command.session] = ServedSession(
            command.session,
            session,
            self._new_executor(),
            SessionScheduler(self.scheduler),
            transacted=command.transacted,
            persists_all=self.guard.host.persists_all,
            asks_others=self._asks_others,
        )

    def _close_session(self, command: commands.CloseSession) -> None:
        session = self._sessions.pop(command.session, None)
        if session is None:
            return
        for name in [name for name, consumer in list(self._consumers.items()) if consumer.session is session]:
            # Before the session, so that messages which the session gives back are not pushed.
            self._end_consumer(self._consumers.pop(name))
        session.session.close()

    # Reader groups

    def _read_page(self, command: commands.ReadGroup) -> Mapping[str, str]:
        return send_page(self._pipelines.read(command), command, self.engine.emit)

    # Sending

    def _read(self, frame: Frame) -> Envelope:
        envelope = without_provider_properties(from_frame(frame, PYJMS))
        if envelope.message_id is None and not _has_profile(frame):
            name = MessageId(f"{self._message_prefix}{next(self._message_numbers)}")
            return replace(envelope, message_id=name, timestamp_ms=envelope.timestamp_ms or self._clock.time_ms())
        return envelope

    def _send(self, session: ServedSession, envelope: Envelope, frame: Frame) -> None:
        self.guard.send(envelope)
        session.session.send(envelope)
        session.unit.grow(1, len(frame.body))
        if (receipt := frame.receipt) is not None:
            self._receipts[receipt] = Sent(envelope.message_id).headers()

    # Consumers

    def _new_consumer(self, command: commands.Subscribe) -> ServedConsumer:
        session = self._session(command.session)
        self._check_new_consumer(command.id)
        consumer = self._consumers[command.id] = ServedConsumer(self, session, command.id)
        return consumer

    def _subscribe(self, command: commands.Subscribe, consumer: ServedConsumer) -> None:
        try:
            self.guard.read(command.address)
            for name in (command.durable_name, command.shared_name):
                if name is not None:
                    self.guard.subscribe(self._client_id or "", name)
            request = SubscribeRequest(
                address=command.address,
                selector=selector_or_none(command.selector),
                no_local=command.no_local,
                durable_name=command.durable_name,
                shared_name=command.shared_name,
                is_shared=command.is_shared,
                priority=command.priority,
            )
            consumer.begin(consumer.session.session.subscribe(request, consumer.on_ready))
        except Exception:
            self._consumers.pop(command.id, None)
            # Closing answers the CREDIT frames that have come meanwhile.
            consumer.close()
            raise

    def _browse(self, command: commands.Browse) -> None:
        session = self._session(command.session)
        self._check_new_consumer(command.id)
        self.guard.browse(command.address)
        messages = session.session.browse(command.address, selector_or_none(command.selector))
        browser = self._consumers[command.id] = ServedBrowser(
            self, session, command.id, iter(messages), self._end_browser
        )
        browser.on_ready()

    def _find(self, command: commands.Find) -> Mapping[str, str]:
        self._session(command.session)
        self.guard.look(command.address)
        return Found(self.guard.host.has(command.address)).headers()

    def _check_new_consumer(self, name: str) -> None:
        if name in self._consumers:
            raise ProfileError(f"there is a consumer {name[:80]!r} already")
        if len(self._consumers) >= self._settings.subscriptions_max:
            raise ResourceError(f"a connection may have {self._settings.subscriptions_max} consumers here")

    def _unsubscribe(self, command: commands.Unsubscribe) -> None:
        consumer = self._consumers.pop(command.id, None)
        if consumer is not None:
            self._end_consumer(consumer)

    def _end_consumer(self, consumer: CreditConsumer) -> None:
        consumer.close()
        if self._waits and isinstance(consumer, ServedConsumer):  # on a worker
            consumer.await_end()  # else its session might end first, and a message that is fetched count as delivered

    def _delete_subscription(self, command: commands.DeleteSubscription) -> None:
        self.guard.subscribe(self._client_id or "", command.durable_name)
        self._session(command.session).session.unsubscribe(command.durable_name)

    # The end of a browser

    def _end_browser(self, browser: ServedBrowser) -> None:
        """Send the end of a browser that has seen all messages, and remove it."""
        self._consumers.pop(browser.name, None)
        self.engine.emit(Frame("MESSAGE", {"subscription": browser.name, "browser": "end"}))
        self.engine.transport.wake()

    # Deliveries

    def _acknowledge(self, command: commands.Acknowledge) -> None:
        session = self._session(command.session)
        session.acknowledge(command.ids)

    def _give_back(self, command: commands.GiveBack) -> None:
        session = self._session(command.session)
        deliveries = session.take(command.ids)
        if command.unseen:
            session.session.give_back_unseen(deliveries)
        else:
            session.session.recover(deliveries)

    def _retry(self, command: commands.Retry) -> None:
        session = self._session(command.session)
        session.session.retry_all(session.take(command.ids), command.reason)

    def _reject(self, command: commands.Reject) -> None:
        session = self._session(command.session)
        for delivery in session.take(command.ids):
            session.session.reject(delivery, command.reason)

    def _adopt(self, command: commands.Adopt) -> None:
        adopter = self._session(command.session)
        holders = self._holders_of(command.ids)
        adopted: dict[int, Delivery] = {}
        # Taken out first: a holder that settles at this moment, on another thread, then either finds nothing, or is first.
        for number, holder in holders.items():
            # A delivery that is missing was settled by its holder just now.
            if (delivery := holder.unsettled.pop(number, None)) is not None:
                adopted[number] = delivery
        if adopted:
            try:
                adopter.session.adopt(list(adopted.values()))
            except Exception:
                # Deliveries that were not adopted still belong to their holders.
                for number, delivery in adopted.items():
                    holders[number].unsettled[number] = delivery
                raise
        if len(adopted) < sum(map(len, command.ids)):
            # Some were settled by their holder just now: the others go back to their queues, as either all are adopted or none.
            adopter.session.recover(list(adopted.values()))
            raise ClosedError("a delivery that was to be adopted is not open any more")
        adopter.unsettled.update(adopted)

    def _holders_of(self, ids: DeliveryIds) -> Mapping[int, ServedSession]:
        """Return the holder of each delivery in `ids`, in that order; deliveries that are not open are left out."""
        sessions = tuple(self._sessions.values())
        if sum(map(len, ids)) == 1:
            holder = next((session for session in sessions if ids[0][0] in session.unsettled), None)
            return {} if holder is None else {ids[0][0]: holder}
        holders: dict[int, ServedSession] = {}
        for session in sessions:
            # A copy of the keys, as the sessions' threads change these tables.
            holders.update(dict.fromkeys(list(session.unsettled), session))
        return {number: holders[number] for number in named(ids, holders)}


def _fail_with(error: Exception) -> None:
    raise error


def _has_profile(frame: Frame) -> bool:
    return frame.tail.startswith(f"{PROFILE_HEADER}:") or PROFILE_HEADER in frame.headers
