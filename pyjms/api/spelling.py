"""How the name of a member is spelled in Java."""

from __future__ import annotations

_WORDS = {"id": "ID", "jms": "JMS", "jmsx": "JMSX", "rm": "RM", "utf": "UTF", "xa": "XA"}
"""Words that Java writes as one run of capitals."""

_PLAIN = frozenset({"format_id", "global_transaction_id"})
"""Members of ``javax.transaction.xa.Xid``, where Java writes such a word as any other."""


def java_name(python_name: str, prefix: str = "") -> str:
    """Return the Java spelling: ``read_utf`` → ``readUTF``; with prefix ``get``: ``client_id`` → ``getClientID``."""
    first, *others = python_name.split("_")
    spell = str.capitalize if python_name in _PLAIN else _spell
    return (prefix + spell(first) if prefix else first) + "".join(map(spell, others))


def _spell(word: str) -> str:
    return _WORDS.get(word) or word.capitalize()
