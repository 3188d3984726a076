"""The channel of JBoss Messaging Core: its contract, its state, and its push half."""
