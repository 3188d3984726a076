"""What providers over a network share, whatever their protocol: sockets, the thread that reads, and connections that fail over."""
