"""The broker's side of AMQP 1.0: links as producers and consumers of a virtual host's sessions."""
