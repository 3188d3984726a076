"""The forms of a report: on the terminal, as JUnit XML, as one HTML file, and the difference between two."""
