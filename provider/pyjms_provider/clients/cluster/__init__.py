"""Connections to a virtual host that several members serve (`docs/design/cluster.md`): one session over the shards' sessions."""
