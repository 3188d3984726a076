"""STOMP 1.0, 1.1 and 1.2 without I/O: frames, their codec, negotiation, the pyjms profile, and the dialects of brokers.

Client and server use the same modules; docs/reference/stomp.md specifies the protocol.
"""
