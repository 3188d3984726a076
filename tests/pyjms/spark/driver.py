"""A driver that may be killed: reads ``orders`` into ``out`` until nothing is left, and ends with 0; or with 1 when its query fails.

Run as ``python -m tests.pyjms.spark.driver URL CHECKPOINT PLANTS PARTITIONS``.
"""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException

from pyjms.spark.session import make_session
from tests.pyjms.spark.planting import PlantedSource


def main(url: str, checkpoint: str, plants: str, partitions: str) -> int:
    """Run the query."""
    spark = make_session("killed", master="local[2,2]", settings={"spark.driver.memory": "512m"})
    spark.dataSource.register(PlantedSource)
    rows = spark.readStream.format("planted-jms").options(
        url=url,
        destination="queue:orders",
        readerGroup="killed",
        partitions=partitions,
        maxMessagesPerBatch=40,
        plants=plants,
    )
    written = rows.load().select("text", "properties", "property_types").writeStream.format("planted-jms")
    query = (
        written.options(url=url, destination="queue:out", checkpointLocation=checkpoint, plants=plants)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except PySparkException as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
