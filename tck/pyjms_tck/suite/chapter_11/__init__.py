"""The interfaces: every type, method, property and constant, under both names."""
