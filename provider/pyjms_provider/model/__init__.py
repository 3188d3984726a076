"""The managed broker: one tree of objects with typed attributes, context variables, a life cycle and durable configuration.

`tree` has the shape of the whole tree, `managed` what all objects have in common, and a module for each category what is its
own. Management (REST, console, messages, the command line) knows nothing of the model but the declarations of `attributes`.
Nothing is imported here, so that the contract of configuration stores costs nobody what the model needs.
"""
