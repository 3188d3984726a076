"""The profile of RabbitMQ over STOMP: `pyjms-tck run stomp://127.0.0.1:61613 --profile rabbitmq_profile.py`."""

from pyjms_tck.profile import Profile


class RabbitMqProfile(Profile):
    """A node of its own, with the user that comes with it."""

    title = "RabbitMQ 3.10 over STOMP"
    user_name = "guest"
    password = "guest"  # noqa: S105 - what every new node has
    wrong_credentials = ("guest", "wrong")
    parallel = 2
