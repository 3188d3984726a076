"""The commands that the bundled broker adds to ``pyjms``, found by the entry points of ``pyjms.commands``."""
