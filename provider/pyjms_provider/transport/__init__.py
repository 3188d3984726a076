"""The broker's network: sockets, TLS, WebSockets, time and threads around the engines of the protocols.

`service` has what others use: `NetworkService`, which opens listeners. `settings` says what can be chosen.
"""
