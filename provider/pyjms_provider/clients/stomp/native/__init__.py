"""Clients of the pyjms broker: every call of the SPI is one verb of the pyjms profile (docs/reference/stomp.md)."""
