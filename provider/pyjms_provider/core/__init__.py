"""The broker's core: machines without locks, and composites with one short lock each.

Nothing here reads a clock, opens a socket or starts a thread. Time comes in with the call or from the injected clock;
what is to be done afterwards goes out as return values, so that no lock is held while anybody else's code runs.
"""
