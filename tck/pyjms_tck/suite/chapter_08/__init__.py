"""Chapter 8: what application servers use."""
