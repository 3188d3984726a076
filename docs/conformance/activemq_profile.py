"""The profile of ActiveMQ Classic over STOMP: `pyjms-tck run stomp://127.0.0.1:61613 --profile activemq_profile.py`."""

from pyjms_tck.profile import Profile


class ActiveMqProfile(Profile):
    """A broker of its own, as its package configures it."""

    title = "ActiveMQ Classic 5.17 over STOMP"
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
