"""Durable writes: the contract of journals, and the storage manager over one."""
