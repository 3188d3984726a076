"""The life stories of messages: written beside the work of a broker, and read when somebody asks where a message went.

`core.stories` says what is told; here it is written (`log`, `records`, `segments`) and read again (`reading`, `words`).
"""
