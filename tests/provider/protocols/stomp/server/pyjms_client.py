"""A pyjms client whose commands are said one by one."""

from __future__ import annotations

from pyjms.spi.envelope import Address, Envelope
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.commands import delivery_ids
from pyjms_provider.protocols.stomp.codec import encode
from pyjms_provider.protocols.stomp.command_frames import command_frame, error_of, is_closing
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame, to_frame
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER, PACKED_VERSION
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client


class PyjmsClient:
    """One profile connection, its commands answered one by one."""

    def __init__(
        self, bench: Bench, *, client_id: str | None = None, started: bool = True, is_packed: bool = False
    ) -> None:
        self.client = Client(bench)
        headers = {"pyjms-profile": "1"}
        if is_packed:
            headers[PACKED_HEADER] = PACKED_VERSION
        if client_id is not None:
            headers["client-id"] = client_id
        self.connected = self.client.log_in(**headers)
        assert self.connected.headers.get("pyjms-profile") == "1"
        self._receipts = 0
        if started:
            self.do(commands.Start())

    def do(self, command: commands.Command | Frame) -> Frame:
        """Say `command`, and return its RECEIPT. Raises what an ERROR tells."""
        self._receipts += 1
        receipt = str(self._receipts)
        frame = command if isinstance(command, Frame) else command_frame(command, receipt)
        frame.headers["receipt"] = receipt
        self.tell(frame)
        self.client.settle()
        answer = next(each for each in self.client.frames if each.headers.get("receipt-id") == receipt)
        self.client.frames.remove(answer)
        if answer.command == "ERROR":
            assert not is_closing(answer)
            raise error_of(answer)
        return answer

    def tell(self, command: commands.Command | Frame) -> None:
        """Say `command` without waiting for an answer."""
        frame = command if isinstance(command, Frame) else command_frame(command)
        self.client.feed(encode(frame, self.client.version))

    def together(self, *said: commands.Command | Frame) -> None:
        """Say all of these in one read, without waiting for answers."""
        frames = [each if isinstance(each, Frame) else command_frame(each) for each in said]
        self.client.feed(b"".join([encode(frame, self.client.version) for frame in frames]))

    def tell_sent(self, text: str, session: str = "a") -> None:
        """Send a PERSISTENT message without waiting for an answer."""
        frame = to_frame(make_envelope(text, persistent=True), PYJMS)
        frame.headers["session"] = session
        self.tell(frame)

    def session(self, name: str = "a", *, transacted: bool = False) -> str:
        self.do(commands.OpenSession(session=name, transacted=transacted))
        return name

    def send(self, envelope: Envelope, session: str = "a") -> Frame:
        frame = to_frame(envelope, PYJMS)
        frame.headers["session"] = session
        return self.do(frame)

    def consume(self, address: Address = ORDERS, session: str = "a", name: str = "c", credit: int = 100) -> None:
        self.do(commands.Subscribe(session=session, id=name, address=address))
        if credit:
            self.tell(commands.Credit(subscription=name, credit=credit))

    def messages(self) -> list[Frame]:
        self.client.settle()
        found = [frame for frame in self.client.frames if frame.command == "MESSAGE"]
        self.client.frames = [frame for frame in self.client.frames if frame.command != "MESSAGE"]
        return found

    def texts(self) -> list[object]:
        return [from_frame(frame, PYJMS).body for frame in self.messages()]


def ids(*frames: Frame) -> tuple[range, ...]:
    return delivery_ids(int(frame.headers["ack"]) for frame in frames)


def ready(bench: Bench, *, transacted: bool = False, credit: int = 100) -> PyjmsClient:
    """Return a client with a session and a consumer of orders."""
    client = PyjmsClient(bench)
    client.session(transacted=transacted)
    client.consume(credit=credit)
    return client
