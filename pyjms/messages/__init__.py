"""Message objects and destinations: what an application holds, up to the point where it becomes an envelope.

`conversion` and `storing` define the types as which a value may be read and written; `headers`, `properties` and `base` are the
parts of every message, a module for each body type stands beside them, and `freeze` turns messages into envelopes and
deliveries into messages. When and where messages are sent is the business of `pyjms.runtime`.
"""
