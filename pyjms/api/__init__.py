"""The JMS 1.1 interfaces: signatures, both names of each method, sections of the specification; no behaviour."""
