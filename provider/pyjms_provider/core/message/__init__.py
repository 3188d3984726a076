"""Messages as channels see them: references, states, locations, and the events of their lives."""
