"""Implementations of the SPI: the ways in which `pyjms` reaches a broker."""
