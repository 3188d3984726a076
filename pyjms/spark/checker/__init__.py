"""The checker of recorded histories, on Spark: the rules of `pyjms.history`, for histories that one machine cannot hold.

It works in three steps. *Screening* (`screening`, `ordering`) clears, with joins and aggregations, all messages that
cannot break a rule; it never clears one that might. *Gathering* (`gathering`) brings each suspect together with all
events that its judgement needs. *Judging* (`judging`) gives each suspect to the same functions that
`pyjms.history.check` runs: on the driver if they are few, on the executors otherwise. So verdicts, texts and witnesses
are those of the reference, and no part of the history reaches the driver except a few suspects and the events of
clients, not messages: subscribe, close, crash.
"""
