"""Management: what operators see and do, through REST, messages and the console; it knows almost nothing of the model.

All that can be seen and done comes from the declarations of the model: categories, attributes, statistics, operations.
"""
