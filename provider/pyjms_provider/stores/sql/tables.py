"""The schema. All names begin with ``pyjms_``, so that an application's tables may stand beside them.

A message that is in one queue is one row of `MESSAGE` that names the queue. One that is in several has no queue there,
and a row of `ENTRY` for each; it goes with its last entry. A message of a prepared branch names the branch, and is in no
queue until the branch is committed.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
)

VERSION = 3
"""Of the schema. A change of it comes with a function in `MIGRATIONS` of `schema`."""
PREFIX = "pyjms_"
SCHEMA = MetaData()

# SQLite's only integer that is a row's own key is called INTEGER, and holds 64 bits.
_Id = BigInteger().with_variant(Integer(), "sqlite")

META = Table(
    f"{PREFIX}meta",
    SCHEMA,
    Column("one", SmallInteger, primary_key=True),
    Column("product", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("next_queue", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("clean", Boolean, nullable=False),
    Column("holder", Text, nullable=False),
)
"""One row, number 1. `epoch` grows with each opening: whoever finds another one has lost the store."""

QUEUE = Table(
    f"{PREFIX}queue",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("kind", SmallInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("temporary", Boolean, nullable=False),
    Column("client_id", Text),
    Column("subscription", Text),
    Column("selector", Text),
    Column("no_local", Boolean, nullable=False),
    Column("policy", Text),
)
"""Queues, and durable subscriptions: those have a client id and a subscription's name."""

MESSAGE = Table(
    f"{PREFIX}message",
    SCHEMA,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("queue", BigInteger),
    Column("branch", BigInteger),
    Column("priority", SmallInteger, nullable=False),
    Column("expiration", BigInteger, nullable=False),
    Column("deliver_at", BigInteger, nullable=False),
    Column("reliable", Boolean, nullable=False),
    Column("deliveries", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""`payload` is what `stores.codec` made; it stands last, so that the rest is read without it.

The connection that sent a message is not kept: it ended with the broker, and its subscribers were chosen before.
"""

Index(
    f"{PREFIX}message_branch",
    MESSAGE.c.branch,
    sqlite_where=MESSAGE.c.branch.is_not(None),
    postgresql_where=MESSAGE.c.branch.is_not(None),
)

ENTRY = Table(
    f"{PREFIX}entry",
    SCHEMA,
    Column("message", BigInteger, nullable=False),
    Column("queue", BigInteger, nullable=False),
    Column("deliveries", Integer, nullable=False),
    PrimaryKeyConstraint("message", "queue"),
    sqlite_with_rowid=False,
)

BRANCH = Table(
    f"{PREFIX}branch",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("format_id", BigInteger, nullable=False),
    Column("global_id", LargeBinary, nullable=False),
    Column("qualifier", LargeBinary, nullable=False),
    Column("prepared_ms", BigInteger, nullable=False),
)

REMOVAL = Table(
    f"{PREFIX}removal",
    SCHEMA,
    Column("branch", BigInteger, nullable=False),
    Column("message", BigInteger, nullable=False),
    Column("queue", BigInteger, nullable=False),
    PrimaryKeyConstraint("branch", "message", "queue"),
    sqlite_with_rowid=False,
)
"""What a prepared branch takes out of queues when it is committed."""

HEURISTIC = Table(
    f"{PREFIX}heuristic",
    SCHEMA,
    Column("format_id", BigInteger, nullable=False),
    Column("global_id", LargeBinary, nullable=False),
    Column("qualifier", LargeBinary, nullable=False),
    Column("committed", Boolean, nullable=False),
    PrimaryKeyConstraint("format_id", "global_id", "qualifier"),
    sqlite_with_rowid=False,
)

MARK = Table(
    f"{PREFIX}mark",
    SCHEMA,
    Column("queue", BigInteger, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("message", BigInteger, nullable=False),
    PrimaryKeyConstraint("queue", "priority"),
    sqlite_with_rowid=False,
)

DUPLICATE = Table(
    f"{PREFIX}duplicate",
    SCHEMA,
    Column("kind", SmallInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("temporary", Boolean, nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("duplicate_id", Text, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "name", "temporary", "serial"),
    sqlite_with_rowid=False,
)
"""Ids that producers chose. Their key is a serial, so that those of a destination are added at one end and forgotten at the other, whatever they are."""

SET_ASIDE = Table(
    f"{PREFIX}set_aside",
    SCHEMA,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("queues", Text, nullable=False),
    Column("found_ms", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("payload", LargeBinary),
)
"""Messages that could not be understood, for somebody to look at."""

GROUP = Table(
    f"{PREFIX}group",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("queue", BigInteger, nullable=False),
    Column("selector", Text),
    Column("generation", Text, nullable=False),
    Column("low", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("opened_ms", BigInteger, nullable=False),
)
"""Reader groups. Since version 2."""

RESERVED = Table(
    f"{PREFIX}reserved",
    SCHEMA,
    Column("group_number", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("message", BigInteger, nullable=False),
    Column("deliveries", Integer, nullable=False),
    PrimaryKeyConstraint("group_number", "number"),
    sqlite_with_rowid=False,
)
"""What a reader group holds of its queue, above its low mark. Since version 2."""

STAGE = Table(
    f"{PREFIX}stage",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("sink", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("attempt", Text, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("staged_ms", BigInteger, nullable=False),
    Column("discard_ms", BigInteger, nullable=False),
)
"""Staged units. Their messages name them in `branch`, so a number is never a branch's and a unit's. Since version 2."""

Index(f"{PREFIX}stage_name", STAGE.c.sink, STAGE.c.epoch, STAGE.c.partition, STAGE.c.attempt, unique=True)

STAGE_MARKER = Table(
    f"{PREFIX}stage_marker",
    SCHEMA,
    Column("sink", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)
"""The last epoch of each sink that was promoted. Since version 2."""

PAGED = Table(
    f"{PREFIX}paged",
    MetaData(),
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("payload", LargeBinary, nullable=False),
)
"""Messages that need not survive; in a file of their own, or as an unlogged table."""
