"""The broker's protocols: sans-I/O engines, which a transport feeds with bytes and pulls bytes from."""
