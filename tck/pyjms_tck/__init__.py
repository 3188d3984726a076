"""The conformance suite of JMS 1.1 and 2.0: judges any JMS provider, requirement by requirement.

`catalogue` has the requirements as data, `suite` the tests that cite them, `profile` the facts that a provider's author
states, `fixtures` the fixtures of the tests. The command is ``pyjms-tck``; ``pytest --pyargs pyjms_tck --jms-url URL``
runs the same tests.
"""
