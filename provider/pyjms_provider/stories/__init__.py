"""The life stories of messages: recorded beside the work of a broker, and read when an operator asks where a message went.

The core's trace emits events (`core.queue.message_trace`); here they are written (`log`), and read again (`reading`).
"""
