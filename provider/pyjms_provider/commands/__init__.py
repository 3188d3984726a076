"""What the bundled broker adds to the command ``pyjms``, found by the entry points of ``pyjms.commands``."""
