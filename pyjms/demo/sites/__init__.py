"""`pyjms demo`: orders go through a workflow over two sites, one of which is killed on the way, and the books add up.

    Lisbon: shop, workflow ── requests forwarded ──▶ Oslo: supplier, carrier
                           ◀── answers forwarded ──

Each site is one process (`site`) with a broker, a store, companies that have a database, and routes to the other site;
it is killed as a whole. The process of the demo (`run`) starts them, starts the orders, kills one site, and judges the
companies' records. The decisions made without messages are pure: `chain` (the workflow, and the work of each company)
and `judging` (the content of each order, and its expected end).
"""
