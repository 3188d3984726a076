"""Chapter 4: what both messaging domains have in common."""
