"""The rules at work: one module for each family, each a function from `Facts` to findings."""
