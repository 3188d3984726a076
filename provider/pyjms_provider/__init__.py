"""The bundled message broker: a pure core, stores, and the clients through which applications reach it."""
