"""Chapter 5: point-to-point messaging."""
