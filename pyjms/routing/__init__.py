"""Routing: rules, as data, decide the destinations of each message and transform it."""
