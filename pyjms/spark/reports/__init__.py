"""Reports on what passed through destinations: `pyjms pipeline report`."""
