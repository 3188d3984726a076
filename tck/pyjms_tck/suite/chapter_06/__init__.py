"""Chapter 6: publish/subscribe messaging."""
