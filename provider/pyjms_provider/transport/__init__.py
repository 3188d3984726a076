"""The broker's network: sockets, TLS, WebSockets, timers and threads around the protocol engines.

The public interface is `NetworkService` in `service`, which opens listeners, and their options in `settings`.
"""
