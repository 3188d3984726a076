"""`pyjms demo`: a supply chain of queues that works off the records of a file, and proves that none is lost or doubled.

It is an application: it uses the public names of `pyjms` and nothing beneath them.

    file → intake → check → look up → dispatch → a queue for each lane
                               ↕           ↘
                             desk           topic → ledger (durable), board, attention (ordinary subscribers)

What is decided without messages stands apart and is pure: `plan` (the records of the file, which column routes, which is
summed, which lanes there are, which destinations) and `settings` (what the user chose, and when a worker fails). The messaging is
in `workers` (transacted workers and the work of one unit, the server of requests and replies, the collectors at the end), `books`
(what outlives the process, and what arrived against what was sent) and `process` (the whole). `screen` shows it.
"""
