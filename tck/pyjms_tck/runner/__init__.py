"""Runs tests in worker processes, so that a test that hangs or crashes costs its own requirement and no other."""
