"""The checker of recorded histories, on Spark: the rules of `pyjms.history`, for histories that one machine cannot hold.

It works in three steps. *Screening* (`screening`, `ordering`) clears, with joins and aggregations, all messages that cannot
break a rule; it never clears one that might. *Gathering* (`gathering`) brings each suspect together with all that its
judgement needs. *Judging* (`judging`) gives each suspect to the very functions that `pyjms.history.check` runs: here where
they are few, else on the executors. So verdicts, texts and witnesses are those of the reference, and no part of the history reaches
the driver except a few suspects and what clients, not messages, do: subscribe, close, crash.
"""
