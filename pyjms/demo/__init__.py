"""`pyjms demo`: a supply chain of queues that works off the records of a file, and proves that none is lost or doubled.

It is an application: it uses the public names of `pyjms` and nothing beneath them.

    file → intake → check → look up → dispatch → a queue for each lane
                               ↕           ↘
                             desk           topic → ledger (durable), board, attention (ordinary subscribers)

What is decided without messages stands apart and is pure: `records` (the file), `plan` (which column routes, which is
summed, which lanes there are), `names` (the destinations), `settings` (what the user chose), `chance` (when a worker
fails), `accounting` (what arrived against what was sent). The messaging is in `stages` (the work of one unit), `workers`
(transacted workers), `desk` (the server of requests and replies), `collectors` (whoever receives at the end), `books`
(what outlives the process) and `process` (the whole). `screen` shows it.
"""
