"""A driver that may be killed: reads ``orders`` into ``out`` until nothing is left, and ends with 0; or with 1 when its query fails.

Run as ``python -m tests.pyjms.spark.driver URL CHECKPOINT PLANTS PARTITIONS``.
"""

from __future__ import annotations

import sys
import threading

from pyspark.errors import PySparkException

from pyjms.spark.commands.running import follow
from pyjms.spark.session import make_session
from tests.pyjms.spark.jvm import QUICK
from tests.pyjms.spark.planting import PlantedSource

KEPT = ("message_id", "timestamp", "text", "properties", "property_types")
"""With their ids, so that the checker of histories knows the messages again."""
SETTINGS = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": QUICK}


def main(url: str, checkpoint: str, plants: str, partitions: str) -> int:
    """Run the query."""
    spark = make_session("killed", master="local[2,2]", settings=SETTINGS)
    spark.dataSource.register(PlantedSource)
    rows = spark.readStream.format("planted-jms").options(
        url=url,
        destination="queue:orders",
        readerGroup="killed",
        partitions=partitions,
        maxMessagesPerBatch=40,
        plants=plants,
    )
    written = rows.load().select(*KEPT).writeStream.format("planted-jms")
    written = written.options(
        url=url, destination="queue:out", checkpointLocation=checkpoint, plants=plants, headers="keep"
    ).trigger(availableNow=True)
    try:
        follow(written.start, threading.Event(), "moved", lambda _: None)
    except PySparkException as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
