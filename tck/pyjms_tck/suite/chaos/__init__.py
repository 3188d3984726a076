"""The chaos chapter: clients of all kinds at once, with connections that end at any moment, and broker restarts.

Everything is recorded, and the recorded history is judged by `pyjms.history`. `clients` has the clients, `run` a run of
them for the time that the profile states.
"""
