"""The profile of ActiveMQ Classic over AMQP 1.0: `pyjms-tck run amqp://127.0.0.1:5672 --profile activemq_amqp_profile.py`."""

from pyjms_tck.profile import Profile


class ActiveMqProfile(Profile):
    """A broker of its own, as its package configures it."""

    title = "ActiveMQ Classic 5.17 over AMQP 1.0"
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
