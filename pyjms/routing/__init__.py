"""Routing: rules as data say where each message goes, and what becomes of it on the way."""
