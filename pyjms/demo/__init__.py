"""`pyjms demo`: a supply chain of queues that processes the records of a file, and proves that none is lost or
duplicated.

It is an application: it uses the public names of `pyjms` and nothing beneath them.

    file → intake → check → look up → dispatch → a queue for each lane
                               ↕           ↘
                             desk           topic → ledger (durable), board, attention (ordinary subscribers)

The decisions made without messages are separate and pure: `plan` (the records of the file, the routing column, the
summed column, the lanes, the destinations) and `settings` (the user's choices, and when a worker fails). The messaging
is in `workers` (transacted workers and the work of one unit, the server of requests and replies, the collectors at the
end), `books` (the state that outlives the process, and the comparison of arrivals with sends) and `process` (the
whole). `screen` shows it.
"""
