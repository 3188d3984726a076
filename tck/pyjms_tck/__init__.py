"""The conformance suite of JMS 1.1: judges any provider that the API reaches, requirement by requirement.

`catalogue` has the requirements as data, `suite` the tests that cite them, `profile` what a provider's author tells of
the provider, `fixtures` what tests stand on. The command is ``pyjms-tck``; ``pytest --pyargs pyjms_tck --jms-url URL``
runs the same tests.
"""
