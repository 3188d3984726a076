"""The client half of JMS: connections, sessions, producers and consumers over any provider of the SPI."""
