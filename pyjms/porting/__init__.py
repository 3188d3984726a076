"""Programs in Java that use JMS become programs in Python that use pyjms: the command ``pyjms port``.

`pyjms.porting.program` translates; it needs the extra `port`. `pyjms.porting.java` is what ported programs import, and
needs nothing.
"""
