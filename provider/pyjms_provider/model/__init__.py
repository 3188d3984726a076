"""The managed broker: one tree of objects with typed attributes, context variables, a life cycle and durable configuration.

`tree` has the shape of the whole tree, `managed` the base of all objects, and a module for each category its
specific part. Management (REST, console, messages, the command line) knows nothing of the model but the declarations of `attributes`.
Nothing is imported here, so that using the contract of configuration stores does not load the model.
"""
