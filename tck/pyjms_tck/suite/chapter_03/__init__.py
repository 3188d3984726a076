"""The message model: headers, properties, selectors, bodies."""
