"""The SQL store: messages, queues and branches in SQLite or PostgreSQL, through SQLAlchemy Core.

SQLAlchemy provides engines, pools, dialects, the schema and the text of every statement. Statements that run for each message are
executed on the driver's own cursor, as SQLAlchemy would take a quarter of the time of a forced write (decision 0111).
"""

from pyjms_provider.stores.sql.journal import SqlJournal, open_journal

__all__ = ["SqlJournal", "open_journal"]
