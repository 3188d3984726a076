"""What is noted of queues while time goes by: alerts, and the last hour. Machines without clocks, threads and I/O."""
