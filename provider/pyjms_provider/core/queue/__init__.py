"""The queue and its collaborators: entries, consumers, limits, delays, expiry, dead letters."""
