"""Connection consumers and distributed transactions."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, mutant, value

__all__ = ["MUTANTS"]

_S = "pyjms.runtime.session:JmsSession."
_CC = "pyjms.runtime.server_sessions:JmsConnectionConsumer."
_C = "pyjms.runtime.connection:JmsConnection."
_XA = "pyjms.runtime.xa:"
_CONTROLLED = _XA + "_Controlled."

MUTANTS = (
    mutant(
        "8.2.1-a",
        "a session forgets its own listener",
        edit(_S + "message_listener", "return self._message_listener", "return None"),
    ),
    mutant("8.2.1-b", "run calls nobody", edit(_S + "run", "self._dispatcher.run_loaded()", "pass")),
    mutant(
        "8.2.2-a 8.2.1-b",
        "messages are not loaded into the server session's session",
        edit(_CC + "_load", "session.load(deliveries, self._rest)", "pass"),
    ),
    mutant(
        "8.2.2-b", "server sessions are not started", edit(_CC + "_load_into_pool", "server_session.start()", "pass")
    ),
    mutant(
        "8.2.2-b",
        "messages are delivered before the server session runs",
        edit(_CC + "_load_into_pool", "loaded_into = session", "session.run()\n            loaded_into = session"),
    ),
    mutant(
        "8.2.3-a",
        "a connection consumer takes one server session",
        edit(
            _CC + "_load_into_pool",
            "server_session: ServerSession = self._pool.get_server_session()",
            "server_session = getattr(self._connection, 'one_server_session', None) or self._pool.get_server_session()\n        self._connection.one_server_session = server_session",
        ),
    ),
    mutant(
        "8.2.3-b",
        "a pool that refuses loses messages",
        edit(_CC + "_load_into_pool", "self._give_back(deliveries)", "self._session.acknowledge(deliveries)"),
    ),
    mutant(
        "8.2.4-a",
        "a connection consumer ignores its selector",
        edit(_C + "_connection_consumer", "destination, selector,", "destination, None,"),
    ),
    mutant(
        "8.2.4-b",
        "connections of a domain make no connection consumers",
        body(
            "pyjms.runtime.domains:JmsQueueConnection.create_connection_consumer",
            "_wrong_domain('create_connection_consumer', 'queue')",
        ),
    ),
    mutant(
        "8.2.4-c",
        "a durable connection consumer is not durable",
        edit(_C + "create_durable_connection_consumer", "durable_name=subscription_name", "durable_name=None"),
    ),
    mutant(
        "8.2.4-h",
        "a connection consumer does not know its pool",
        edit(_CC + "server_session_pool", "return self._pool", "return None"),
    ),
    mutant("8.2.4-i", "a closed connection consumer goes on", body(_CC + "close", "pass")),
    # distributed transactions
    mutant(
        "8.3-a 8.3-b",
        "XA connections are started at once",
        edit(_XA + "XAConnectionFactory._connect_xa", "return connection", "connection.start()\n    return connection"),
        durable=True,
    ),
    mutant(
        "8.3-b",
        "XA connections take no credentials",
        edit(
            _XA + "XAConnectionFactory._connect_xa",
            "connection = self._connect",
            "if user_name is not None: raise TypeError('no users')\n    connection = self._connect",
        ),
        durable=True,
    ),
    mutant(
        "8.4-a",
        "an XA connection makes ordinary sessions",
        edit(
            _XA + "JmsXAConnection.create_xa_session",
            "self.open_session(JmsXASession, True, AcknowledgeMode.SESSION_TRANSACTED)",
            "self.create_session(True)",
        ),
        durable=True,
    ),
    mutant(
        "8.4-b",
        "all sessions of an XA connection are XA sessions",
        value(_XA + "JmsXAConnection.createSession", lambda self, transacted=False, mode=1: self.create_xa_session()),
        durable=True,
    ),
    mutant(
        "8.5-a",
        "an XA session gives no session",
        edit(_CONTROLLED + "session", "return self", "return None"),
        durable=True,
    ),
    mutant(
        "8.5-b",
        "commit of a branch rolls it back",
        edit(
            _XA + "JmsXAResource.commit", "xa_commit(_fact(xid), one_phase=bool(one_phase))", "xa_rollback(_fact(xid))"
        ),
        durable=True,
    ),
    mutant(
        "8.5-b",
        "rollback of a branch commits it",
        edit(_XA + "JmsXAResource.rollback", "xa_rollback(_fact(xid))", "xa_commit(_fact(xid), one_phase=True)"),
        durable=True,
    ),
    mutant(
        "8.5-c",
        "an XA session says that it is not transacted",
        edit(_S + "transacted", "self._mode is AcknowledgeMode.SESSION_TRANSACTED", "False"),
        durable=True,
    ),
    mutant(
        "8.5-d 7.3-l", "commit of an XA session does nothing", body(_CONTROLLED + "commit", "return None"), durable=True
    ),
    mutant(
        "8.5-e",
        "rollback of an XA session raises RuntimeError",
        body(_CONTROLLED + "rollback", "raise RuntimeError('the transaction manager does')"),
        durable=True,
    ),
)
