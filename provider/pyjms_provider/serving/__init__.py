"""A broker that is served: the model, the network and the protocols put together. Nothing else knows all three."""
