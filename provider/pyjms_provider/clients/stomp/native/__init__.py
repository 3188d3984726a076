"""Clients of the pyjms broker: every call of the SPI is one command of the pyjms profile (docs/reference/stomp.md)."""
