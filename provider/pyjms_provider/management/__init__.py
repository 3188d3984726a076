"""Management: the views and operations for operators, through REST, messages and the console; it depends on almost nothing of the model.

All of it is derived from the declarations of the model: categories, attributes, statistics, operations.
"""
