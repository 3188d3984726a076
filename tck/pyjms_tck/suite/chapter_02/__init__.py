"""Architecture: how the parts of JMS fit together."""
