"""The SQL store: messages, queues and branches in SQLite or PostgreSQL, through SQLAlchemy Core.

SQLAlchemy gives engines, pools, dialects, the schema and the text of every statement. What runs for each message is
executed on the driver's own cursor, as SQLAlchemy's share would be a quarter of a forced write (decision 0111).
"""

from pyjms_provider.stores.sql.journal import SqlJournal, open_journal

__all__ = ["SqlJournal", "open_journal"]
