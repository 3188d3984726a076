"""The handler of pyjms clients: each command is one call of the SPI, made where the broker is.

docs/reference/stomp.md specifies the commands. Those of one session are done in their order, those of different sessions
side by side; what concerns the connection as a whole has an order of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, Envelope, MessageId
from pyjms.spi.errors import BranchError, ClosedError, ProviderError, ResourceError
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.replay import StageName
from pyjms.spi.selector import selector_or_none
from pyjms.spi.xid import BranchFailure
from pyjms_provider.core.host.virtual_host import TemporaryEndedError
from pyjms_provider.protocols.stomp import verbs
from pyjms_provider.protocols.stomp.answers import (
    Counted,
    Created,
    Found,
    Greeting,
    Prepared,
    Recovered,
    Sent,
    error_frame,
    receipt_frame,
)
from pyjms_provider.protocols.stomp.codec import PROFILE_HEADER
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import ProfileError, StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER, PACKED_VERSION
from pyjms_provider.protocols.stomp.server.contracts import ProtocolHandler
from pyjms_provider.protocols.stomp.server.native_consumers import CreditConsumer, ServedBrowser, ServedConsumer
from pyjms_provider.protocols.stomp.server.native_pipelines import LONG_VERBS, PIPELINE_COMMANDS, ServedPipelines
from pyjms_provider.protocols.stomp.server.native_sessions import NativeFastFrames, PackedSends, ServedSession
from pyjms_provider.protocols.stomp.server.scheduling import SerialExecutor, Task
from pyjms_provider.protocols.stomp.server.standard import without_provider_properties
from pyjms_provider.protocols.stomp.verbs import named, read_delivery_ids

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.stomp.server.contracts import Engine
    from pyjms_provider.protocols.stomp.server.hosts import Guard
    from pyjms_provider.protocols.stomp.server.login import Login
    from pyjms_provider.protocols.stomp.verbs import DeliveryIds

_END: Final = b"\0"
_SEND, _SENDS, _ACK, _DISCONNECT = "SEND", "SENDS", "ACK", "DISCONNECT"
_is_plain = re.compile(r"[A-Za-z0-9.\-]+").fullmatch


class NativeHandler(ProtocolHandler):
    """See the module."""

    def __init__(self, engine: Engine, connection: ProviderConnection, guard: Guard, login: Login) -> None:
        super().__init__(engine, connection, guard)
        self.is_packed = login.is_packed
        """Whether messages go both ways in the form of stores, several in a frame."""
        self._sends = PackedSends(self, guard)
        self._client_id = login.client_id
        self._settings = engine.service.settings
        self._clock = engine.service.clock
        self._waits = guard.host.writes
        self._executor = self._new_executor()
        self._pipeline_executor = (
            self._new_executor()
        )  # a reservation waits for messages, and must hold up nothing else
        self._sessions: dict[str, ServedSession] = {}
        self.fast_frames = NativeFastFrames(self, self._sessions, self._sends) if self.is_packed else None
        self._consumers: dict[str, CreditConsumer] = {}
        self._temporaries: set[Address] = set()
        self.delivery_numbers = count(1)
        self._message_numbers = count(1)
        self._message_prefix = f"ID:{connection.connection_id}-"
        self._receipts: dict[str, Mapping[str, str]] = {}
        """What verbs that are being done will answer beside the receipt's id."""
        self._verbs: Mapping[type[verbs.Verb], tuple[Callable[[Any], Mapping[str, str] | None], bool]] = {
            verbs.Identify: (self._identify, False),
            verbs.Start: (self._start, False),
            verbs.Stop: (self._stop, False),
            verbs.CreateTemporary: (self._create_temporary, False),
            verbs.DeleteTemporary: (self._delete_temporary, False),
            verbs.OpenSession: (self._open_session, False),
            verbs.CloseSession: (self._close_session, True),
            verbs.CommitTransaction: (self._commit, True),
            verbs.AbortTransaction: (self._abort, False),
            verbs.Browse: (self._browse, False),
            verbs.Find: (self._find, False),
            verbs.Unsubscribe: (self._unsubscribe, True),
            verbs.DeleteSubscription: (self._delete_subscription, True),
            verbs.Acknowledge: (self._acknowledge, True),
            verbs.GiveBack: (self._give_back, True),
            verbs.Retry: (self._retry, True),
            verbs.Reject: (self._reject, True),
            verbs.Adopt: (self._adopt, False),
            verbs.BeginBranch: (self._begin_branch, False),
            verbs.EndBranch: (self._end_branch, False),
            verbs.PrepareBranch: (self._prepare, True),
            verbs.CommitBranch: (self._commit_branch, True),
            verbs.RollbackBranch: (self._roll_back_branch, True),
            verbs.RecoverBranches: (self._recover_branches, False),
            verbs.ForgetBranch: (self._forget_branch, True),
            verbs.StageTransaction: (self._stage, True),
            **ServedPipelines(connection, guard, lambda: self._client_id or "", engine.emit).handlers(),
        }

    def _new_executor(self) -> SerialExecutor:
        return SerialExecutor(self.engine.transport, self.perform, self.engine.fail, self.backlog)

    # ProtocolHandler

    def greeting(self) -> Mapping[str, str]:
        connection = self.connection
        capabilities = connection.capabilities & ~(Capability.EMBEDDED_BROKER | Capability.SHARED_TRANSACTIONS)
        lacking = [each for each in Capability if each not in capabilities]
        advice = {each: text for each in lacking if (text := connection.advice(each))}
        greeting = Greeting(
            capabilities=capabilities,
            resource_manager=connection.resource_manager,
            transaction_timeout_s=self._transaction_timeout_s(),
            jmsx_property_names=connection.info.jmsx_property_names,
            advice=advice,
            can_find=True,
            body_max=verbs.limits_of(is_packed=self.is_packed).body_max,
        )
        packed = {PACKED_HEADER: PACKED_VERSION} if self.is_packed else {}
        return {"session": str(connection.connection_id), **packed, **greeting.headers()}

    def _transaction_timeout_s(self) -> int:
        session = self.connection.open_session(transacted=False)
        try:
            return session.xa_get_timeout()
        finally:
            session.close()

    def take(self, frame: Frame) -> None:
        if frame.command == _DISCONNECT:
            executors = [
                self._executor,
                self._pipeline_executor,
                *(session.executor for session in tuple(self._sessions.values())),
            ]
            self.leave(frame, executors, self._disconnect, may_wait=self._waits)
            return
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
            task = Task(frame, partial(_fail_with, error), may_wait=False)  # in its turn, as all answers are
        if task is not None:
            executor.add(task)

    def _acknowledge_at_once(self, frame: Frame) -> bool:
        """Acknowledge, if that is the next to be done and need not wait; return whether it was."""
        headers = frame.headers
        session, text = self._sessions.get(headers.get("session", "")), headers.get("ids")
        if session is None or text is None or not session.executor.is_idle or self.is_over:
            return False
        try:
            ids = read_delivery_ids(text)
            if self._waits and session.waits_for(ids):
                return False
            session.acknowledge(ids)
        except (ProviderError, StompError) as error:
            self.refuse(frame, error)
        else:
            if (receipt := frame.receipt) is not None:
                self.confirm(frame, receipt)
        return True

    def _executor_of(self, frame: Frame) -> SerialExecutor:
        headers = frame.headers
        session = self._sessions.get(headers.get("session", ""))
        if session is None and frame.command == "UNSUBSCRIBE":
            consumer = self._consumers.get(headers.get("id", ""))
            session = None if consumer is None else consumer.session
        if session is None and frame.command in PIPELINE_COMMANDS:
            return self._pipeline_executor
        return self._executor if session is None else session.executor

    def _task_of(self, frame: Frame) -> Task | None:
        """Return what a frame asks for; None: it has been done at once."""
        if frame.command == _SEND:
            session = self._session_of(frame)
            envelope = self._read(frame)
            may_wait = session.session.may_wait(envelope)
            is_brief = may_wait and self.guard.host.waits_briefly(envelope)
            task = Task(frame, partial(self._send, session, envelope, frame), may_wait, is_brief)
            if not is_brief and (may_wait or not session.executor.is_idle):
                task.is_patient = self.guard.host.may_lack_room(envelope.destination)
            return task
        if frame.command == _SENDS and self.is_packed:
            self._session_of(frame)  # which says that there is none
        verb = verbs.read_verb(frame)
        if isinstance(verb, verbs.Interrupt):
            if verb.session not in self._sessions and "receipt" not in frame.headers:
                return None  # it was closed, perhaps twice, while this was on its way
            self._session(verb.session).session.end_waits()  # what waits in its executor is what this is to end
            if "receipt" in frame.headers:
                self.answer(frame.headers["receipt"], {})
            return None
        if isinstance(verb, verbs.Credit):
            consumer = self._consumers.get(verb.subscription)
            if consumer is None:
                if "receipt" not in frame.headers:
                    return None  # a browser, say, that has come to its end while this was on its way
                raise ClosedError(f"there is no consumer {verb.subscription[:80]!r}")
            consumer.add_credit(verb, frame.headers.get("receipt"))
            return None
        if isinstance(verb, verbs.Subscribe):
            consumer = self._new_consumer(verb)
            return Task(frame, partial(self._subscribe, verb, consumer), self._waits or verb.selector is not None)
        do, waits = self._verbs[type(verb)]
        # A long selector takes seconds to be read, so not on the thread of all connections.
        may_wait = (waits and (self._waits or type(verb) in LONG_VERBS)) or getattr(verb, "selector", None) is not None
        is_brief = False
        if may_wait and isinstance(verb, (verbs.Acknowledge, verbs.CommitTransaction)):
            session = self._session(verb.session)
            is_brief = session.is_small and self.guard.host.waits_briefly(None)
            if isinstance(verb, verbs.Acknowledge):
                may_wait = session.waits_for(verb.ids)
                if may_wait and "receipt" not in frame.headers:
                    return self._acknowledge_late(frame, session, verb, is_brief=is_brief)
        is_patient = isinstance(verb, verbs.ReserveMessages) and verb.wait_ms > 0
        return Task(frame, partial(self._do, frame, do, verb), may_wait, is_brief, is_patient=is_patient)

    def _acknowledge_late(
        self, frame: Frame, session: ServedSession, verb: verbs.Acknowledge, *, is_brief: bool
    ) -> Task | None:
        """Acknowledge what nobody waits for: all that comes together is written together."""
        if session.joins(verb.ids):
            return None
        numbers = list(verb.ids)
        task = Task(frame, lambda: session.acknowledge(tuple(numbers), is_told=False), True, is_brief)
        session.late = task, numbers
        return task

    def _do(self, frame: Frame, do: Callable[[Any], Mapping[str, str] | None], verb: verbs.Verb) -> None:
        said = do(verb)
        receipt = frame.headers.get("receipt")
        if said and receipt is not None:
            self._receipts[receipt] = said

    def confirm(self, frame: Frame, receipt: str) -> None:
        if frame.command == _SENDS and _is_plain(receipt):
            self.engine.emit_encoded(f"RECEIPT\nreceipt-id:{receipt}\n\n\0".encode())
            return
        self.engine.emit(receipt_frame(receipt, self._receipts.pop(receipt, None)))

    def refuse(self, frame: Frame, error: ProviderError | StompError) -> None:
        """Answer with ERROR; the connection goes on."""
        receipt = frame.headers.get("receipt")
        session = self._sessions.get(frame.headers.get("session", ""))
        # A message that nobody can receive any more spoils nothing: it would have gone with its destination before the commit, too.
        spoils = receipt is None and not isinstance(error, TemporaryEndedError)
        if spoils and session is not None and session.is_in_unit and session.failure is None:
            # Nobody waits for this answer, but COMMIT tells.
            session.failure = error if isinstance(error, ProviderError) else ProviderError(error.reason)
        self.engine.emit(error_frame(error, receipt))
        self.engine.transport.wake()

    def answer(self, receipt: str, said: Mapping[str, str]) -> None:
        """Answer a frame that waited for more than being done."""
        self.engine.emit(receipt_frame(receipt, said))
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
            session.session.end_waits()

    # The connection

    def _disconnect(self) -> None:
        for name in list(self._sessions):
            self._close_session(verbs.CloseSession(session=name))

    def _identify(self, verb: verbs.Identify) -> None:
        self.connection.set_client_id(verb.client_id)
        self._client_id = verb.client_id

    def _start(self, _: verbs.Start) -> None:
        self.connection.start()
        for consumer in tuple(self._consumers.values()):
            consumer.on_ready()

    def _stop(self, _: verbs.Stop) -> None:
        self.connection.stop()
        for consumer in tuple(self._consumers.values()):
            if isinstance(consumer, ServedConsumer):
                consumer.stopped()

    def _create_temporary(self, verb: verbs.CreateTemporary) -> Mapping[str, str]:
        if len(self._temporaries) >= self._settings.temporaries_max:
            raise ResourceError(f"a connection may have {self._settings.temporaries_max} temporary destinations here")
        address = self.connection.create_temporary(verb.kind)
        try:
            self.guard.create(address)
        except ProviderError:
            self.connection.delete_temporary(address)
            raise
        self._temporaries.add(address)
        return Created(address).headers()

    def _delete_temporary(self, verb: verbs.DeleteTemporary) -> None:
        self.connection.delete_temporary(verb.address)
        self._temporaries.discard(verb.address)

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

    def _open_session(self, verb: verbs.OpenSession) -> None:
        if verb.session in self._sessions:
            raise ProfileError(f"there is a session {verb.session[:80]!r} already")
        if len(self._sessions) >= self._settings.sessions_max:
            raise ResourceError(f"a connection may have {self._settings.sessions_max} sessions here")
        session = self.connection.open_session(transacted=verb.transacted)
        self._sessions[verb.session] = ServedSession(
            verb.session, session, self._new_executor(), transacted=verb.transacted
        )

    def _close_session(self, verb: verbs.CloseSession) -> None:
        session = self._sessions.pop(verb.session, None)
        if session is None:
            return
        for name in [name for name, consumer in list(self._consumers.items()) if consumer.session is session]:
            self._consumers.pop(name).close()
        session.session.close()

    def _commit(self, verb: verbs.CommitTransaction) -> None:
        self._session(verb.session).commit()

    def _abort(self, verb: verbs.AbortTransaction) -> None:
        self._session(verb.session).roll_back()

    def _stage(self, verb: verbs.StageTransaction) -> Mapping[str, str]:
        name = StageName(verb.sink, verb.epoch, verb.partition, verb.attempt)
        return Counted(self._session(verb.session).stage(name, verb.keep_s)).headers()

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
        session.grow_unit(1, len(frame.body))
        if (receipt := frame.receipt) is not None:
            self._receipts[receipt] = Sent(envelope.message_id).headers()

    # Consumers

    def _new_consumer(self, verb: verbs.Subscribe) -> ServedConsumer:
        session = self._session(verb.session)
        self._check_new_consumer(verb.id)
        consumer = self._consumers[verb.id] = ServedConsumer(self, session, verb.id)
        return consumer

    def _subscribe(self, verb: verbs.Subscribe, consumer: ServedConsumer) -> None:
        try:
            self.guard.read(verb.address)
            if verb.durable_name is not None:
                self.guard.subscribe(self._client_id or "", verb.durable_name)
            request = SubscribeRequest(
                address=verb.address,
                selector=selector_or_none(verb.selector),
                no_local=verb.no_local,
                durable_name=verb.durable_name,
                priority=verb.priority,
            )
            consumer.begin(consumer.session.session.subscribe(request, consumer.on_ready))
        except Exception:
            self._consumers.pop(verb.id, None)
            consumer.close()  # which answers CREDIT frames that have come meanwhile
            raise

    def _browse(self, verb: verbs.Browse) -> None:
        session = self._session(verb.session)
        self._check_new_consumer(verb.id)
        self.guard.browse(verb.address)
        messages = session.session.browse(verb.address, selector_or_none(verb.selector))
        browser = self._consumers[verb.id] = ServedBrowser(self, session, verb.id, iter(messages), self._end_browser)
        browser.on_ready()

    def _find(self, verb: verbs.Find) -> Mapping[str, str]:
        self._session(verb.session)
        self.guard.look(verb.address)
        return Found(self.guard.host.has(verb.address)).headers()

    def _check_new_consumer(self, name: str) -> None:
        if name in self._consumers:
            raise ProfileError(f"there is a consumer {name[:80]!r} already")
        if len(self._consumers) >= self._settings.subscriptions_max:
            raise ResourceError(f"a connection may have {self._settings.subscriptions_max} consumers here")

    def _unsubscribe(self, verb: verbs.Unsubscribe) -> None:
        consumer = self._consumers.pop(verb.id, None)
        if consumer is not None:
            consumer.close()

    def _delete_subscription(self, verb: verbs.DeleteSubscription) -> None:
        self.guard.subscribe(self._client_id or "", verb.durable_name)
        self._session(verb.session).session.unsubscribe(verb.durable_name)

    # The end of a browser

    def _end_browser(self, browser: ServedBrowser) -> None:
        """Say that a browser has seen all: it is gone."""
        self._consumers.pop(browser.name, None)
        self.engine.emit(Frame("MESSAGE", {"subscription": browser.name, "browser": "end"}))
        self.engine.transport.wake()

    # Deliveries

    def _acknowledge(self, verb: verbs.Acknowledge) -> None:
        session = self._session(verb.session)
        session.acknowledge(verb.ids)

    def _give_back(self, verb: verbs.GiveBack) -> None:
        session = self._session(verb.session)
        deliveries = session.take(verb.ids)
        if verb.unseen:
            session.session.give_back_unseen(deliveries)
        else:
            session.session.recover(deliveries)

    def _retry(self, verb: verbs.Retry) -> None:
        session = self._session(verb.session)
        session.session.retry_all(session.take(verb.ids), verb.reason)

    def _reject(self, verb: verbs.Reject) -> None:
        session = self._session(verb.session)
        for delivery in session.take(verb.ids):
            session.session.reject(delivery, verb.reason)

    def _adopt(self, verb: verbs.Adopt) -> None:
        heir = self._session(verb.session)
        holders = self._holders_of(verb.ids)
        adopted: dict[int, Delivery] = {}
        for number, holder in holders.items():
            if (delivery := holder.unsettled.pop(number, None)) is not None:  # else its holder has settled it just now
                adopted[number] = delivery
        if adopted:
            try:
                heir.session.adopt(list(adopted.values()))
            except Exception:  # what was not taken over is still its holder's
                for number, delivery in adopted.items():
                    holders[number].unsettled[number] = delivery
                raise
        if len(adopted) < sum(map(len, verb.ids)):
            heir.session.recover(list(adopted.values()))
            raise ClosedError("a delivery that was to be adopted is not open any more")
        heir.unsettled.update(adopted)

    def _holders_of(self, ids: DeliveryIds) -> Mapping[int, ServedSession]:
        """Return whose the deliveries are that `ids` names, in its order; those that are not open are passed over."""
        sessions = tuple(self._sessions.values())
        if sum(map(len, ids)) == 1:
            holder = next((session for session in sessions if ids[0][0] in session.unsettled), None)
            return {} if holder is None else {ids[0][0]: holder}
        holders: dict[int, ServedSession] = {}
        for session in sessions:
            holders.update(dict.fromkeys(list(session.unsettled), session))
        return {number: holders[number] for number in named(ids, holders)}

    # Branches of distributed transactions

    def _begin_branch(self, verb: verbs.BeginBranch) -> None:
        session = self._session(verb.session)
        if not session.transacted:  # what it sends would be seen at once
            raise BranchError(
                "a session works in branches if it was opened with transacted:true", BranchFailure.PROTOCOL
            )
        if verb.timeout_s:
            session.session.xa_set_timeout(verb.timeout_s)
        session.session.xa_start(
            verb.xid, join=verb.mode is verbs.BeginMode.JOIN, resume=verb.mode is verbs.BeginMode.RESUME
        )
        session.branch = verb.xid

    def _end_branch(self, verb: verbs.EndBranch) -> None:
        session = self._session(verb.session)
        failure, session.failure = session.failure, None
        fails = failure is not None or verb.mode is verbs.EndMode.FAIL
        if session.branch == verb.xid:
            session.branch = None
        suspends = verb.mode is verbs.EndMode.SUSPEND and not fails
        session.session.xa_end(verb.xid, suspend=suspends, fail=fails)
        session.settled()  # the branch has them
        if failure is not None:
            raise BranchError(
                f"the branch can only be rolled back, as something in it failed: {failure.reason}",
                BranchFailure.ROLLED_BACK,
            )

    def _prepare(self, verb: verbs.PrepareBranch) -> Mapping[str, str]:
        return Prepared(self._session(verb.session).session.xa_prepare(verb.xid)).headers()

    def _commit_branch(self, verb: verbs.CommitBranch) -> None:
        self._session(verb.session).session.xa_commit(verb.xid, one_phase=verb.one_phase)

    def _roll_back_branch(self, verb: verbs.RollbackBranch) -> None:
        self._session(verb.session).session.xa_rollback(verb.xid)

    def _recover_branches(self, verb: verbs.RecoverBranches) -> Mapping[str, str]:
        return Recovered(tuple(self._session(verb.session).session.xa_recover())).headers()

    def _forget_branch(self, verb: verbs.ForgetBranch) -> None:
        self._session(verb.session).session.xa_forget(verb.xid)


def _fail_with(error: Exception) -> None:
    raise error


def _has_profile(frame: Frame) -> bool:
    return frame.tail.startswith(f"{PROFILE_HEADER}:") or PROFILE_HEADER in frame.headers
