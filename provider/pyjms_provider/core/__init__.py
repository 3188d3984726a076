"""The broker's core: parts without locks, and composites with one short lock each.

Nothing here reads a clock, opens a socket or starts a thread. Times are arguments, or are read from the injected clock;
follow-up work is returned to the caller, so that no lock is held while foreign code runs.
"""
