"""A served broker: the model, the network and the protocols put together. No other package knows all three."""
