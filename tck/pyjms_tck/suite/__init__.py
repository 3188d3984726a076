"""The conformance tests, a package for each chapter of the specification."""
