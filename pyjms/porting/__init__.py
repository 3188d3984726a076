"""Translates Java programs that use JMS into Python programs that use pyjms: the command ``pyjms port``.

`pyjms.porting.program` translates; it needs the extra `port`. Ported programs import `pyjms.porting.java`, which needs
nothing.
"""
