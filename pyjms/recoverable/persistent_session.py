"""The persistent session of a client: the queue manager keeps the tags of its last committed request and reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyjms.runtime.error_mapping import mapped_errors
from pyjms.spi.capability import Capability
from pyjms.spi.sessions import ClientTags

if TYPE_CHECKING:
    from pyjms.api.session import Session
    from pyjms.runtime.session import JmsSession
    from pyjms.spi.sessions import RegisteredClient


class PersistentSession:
    """A client's registration with the queue manager, used by one session. Not for several threads.

    ``PersistentSession(session, "desk-7")`` registers the client: from now on a predecessor of that name, in this program or another one,
    can commit no tags. `last_request` and `last_reply` answer which of its transactions were committed, whatever died since. Before a
    commit, set the tag of the request or reply that it sends or receives; the queue manager stores it in the same write. In a session that is not
    transacted, a tag is stored with the next send, or the next acknowledgement.

    Raises `JMSException`: the provider lacks persistent sessions (`is_supported`), another user has registered the client, or a
    transaction with its tags is still in doubt.
    """

    def __init__(self, session: Session, client: str) -> None:
        self._session = cast("JmsSession", session)
        self._session.connection.require(Capability.PERSISTENT_SESSIONS, "persistent sessions")
        with mapped_errors:
            self._client = self._session.connection.persistent_sessions().register(client)

    @staticmethod
    def is_supported(session: Session) -> bool:
        """Return whether the session's provider has persistent sessions."""
        return Capability.PERSISTENT_SESSIONS in cast("JmsSession", session).connection.capabilities

    @property
    def client(self) -> RegisteredClient:
        """The answer of the queue manager to the registration."""
        return self._client

    @property
    def last_request(self) -> str | None:
        """The tag of the last request that was committed before the registration; None: there was none."""
        return self._client.request_tag

    @property
    def last_reply(self) -> str | None:
        """The tag of the last reply whose receipt was committed before the registration; None: there was none."""
        return self._client.reply_tag

    def tag_request(self, tag: str) -> None:
        """Have `tag`, 1 to 1,000 characters, stored with the commit that enqueues a request. Raises `JMSException`."""
        self._tag(ClientTags(name=self._client.name, incarnation=self._client.incarnation, request=tag))

    def tag_reply(self, tag: str) -> None:
        """Have `tag` stored with the commit that dequeues a reply. Raises `JMSException`."""
        self._tag(ClientTags(name=self._client.name, incarnation=self._client.incarnation, reply=tag))

    def _tag(self, tags: ClientTags) -> None:
        with mapped_errors:
            self._session.provider_session.tag(tags)

    def deregister(self) -> None:
        """Have the queue manager forget the client with its tags. Raises `JMSException`."""
        with mapped_errors:
            self._session.connection.persistent_sessions().deregister(self._client.name)
