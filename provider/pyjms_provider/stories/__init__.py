"""The life stories of messages: written beside the work of a broker, and read when somebody asks where a message went.

The core's trace emits events (`core.queue.message_trace`); here they are written (`log`), and read again (`reading`).
"""
