"""Units of work, branches of distributed transactions, reader groups and staged units."""
