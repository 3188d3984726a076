"""The profile of RabbitMQ over STOMP: `pyjms-tck run stomp://127.0.0.1:61613 --profile rabbitmq_profile.py`."""

from pyjms_tck.profile import Profile

_UNSUBSCRIBES = "RabbitMQ deletes a durable subscription without saying whether there was one"


class RabbitMqProfile(Profile):
    """A node of its own, with the user that comes with it."""

    title = "RabbitMQ 3.10 over STOMP"
    user_name = "guest"
    password = "guest"  # noqa: S105 - what every new node has
    wrong_credentials = ("guest", "wrong")
    unsupported = {  # noqa: RUF012 - a constant of the profile
        "4.4.3-f": "RabbitMQ drops what is sent to a queue or topic that is gone, and says nothing",
        "6.6-a": "RabbitMQ drops what is sent to a topic that is gone, and says nothing",
        "6.11.1-b": "over STOMP nobody can ask RabbitMQ with which topic a durable subscription was made",
        "6.11.1-d": _UNSUBSCRIBES,
        "20.9-k": _UNSUBSCRIBES,
    }
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
