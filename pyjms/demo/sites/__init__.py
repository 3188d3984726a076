"""`pyjms demo`: orders go through a workflow over two sites, one of which is killed on the way, and all adds up.

    Lisbon: shop, workflow ── requests forwarded ──▶ Oslo: supplier, carrier
                           ◀── answers forwarded ──

Each site is one process (`site`) with a broker, a store, companies that have a database, and routes to the other site; it dies
as a whole. The process of the demo (`run`) starts them, begins the orders, kills one, and judges what the companies have written.
What is decided without messages is pure: `chain` (the workflow, and what each company does) and `judging` (what each order holds, and
what must become of it).
"""
