"""The broker's side of STOMP: frames become calls of the SPI at a virtual host, and deliveries become MESSAGE frames when the transport
pulls them.
"""
