"""A broker that writes down stories, and what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyjms import Connection, ConnectionFactory, Message, Session
from pyjms_provider.broker import EmbeddedBroker, running_broker, stop_broker
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stories.reading import FoundStories, Story, StoryQuery, find_stories

NAME = "storied"


class Teller:
    """A broker of its own, whose clock may be set."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "stories"
        self._connections: list[Connection] = []

    def connect(
        self, options: str = "", level: str = "all", clock: Any = None, client_id: str | None = None
    ) -> Connection:
        """Return a started connection; the first one starts the broker."""
        url = f"vm://{NAME}?story={level}&story_directory={self.directory}{options}"
        chosen = {} if clock is None else {"clock": clock}
        factory = ConnectionFactory(url, client_id=client_id, **chosen)
        connection = factory.create_connection()
        connection.start()
        self._connections.append(connection)
        return connection

    def session(self, *, transacted: bool = False, **options: Any) -> Session:
        """Return a session of a new connection."""
        return self.connect(**options).create_session(transacted, Session.AUTO_ACKNOWLEDGE)

    @property
    def broker(self) -> EmbeddedBroker:
        """The broker."""
        found = running_broker(NAME)
        assert found is not None
        return found

    @property
    def queues(self) -> QueueManager:
        """Its queue manager."""
        return QueueManager.of(NAME)

    def found(self, **wanted: Any) -> FoundStories:
        """Return what was written, of a broker that may have ended."""
        broker = running_broker(NAME)
        if broker is not None:
            assert broker.stories is not None
            broker.stories.flush()
        return find_stories(self.directory, StoryQuery(**wanted))

    def story(self, message: Message) -> Story:
        """Return the one story of a message."""
        (story,) = self.found(message_id=message.jms_message_id).stories
        return story

    def steps(self, message: Message) -> list[str]:
        """Return what happened to a message, in order."""
        return [each.what for each in self.story(message).events]

    def stop(self) -> None:
        """End the broker."""
        stop_broker(NAME)


def send(session: Session, name: str = "orders", text: str = "one", **chosen: Any) -> Message:
    """Send a message to a queue; `chosen` are attributes and, in `properties`, properties of it."""
    message = session.create_text_message(text)
    for prop, value in chosen.pop("properties", {}).items():
        message.set_string_property(prop, value)
    for attribute, value in chosen.items():
        setattr(message, attribute, value)
    producer = session.create_producer(session.create_queue(name))
    producer.send(message)
    producer.close()
    return message
