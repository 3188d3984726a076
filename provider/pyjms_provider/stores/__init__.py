"""Message stores: where messages lie while channels pass their references around."""
