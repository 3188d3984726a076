"""Where PySpark finds the data source ``format("jms")``: it imports every top-level module whose name begins with ``pyspark_``
and takes the class `DefaultSource` of it.

So this module is light, and importing it never fails; what it needs is imported when Spark asks for a reader or a writer. All else
is in `pyjms.spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # without PySpark nobody asks for the class
    DataSource = object  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The data source ``jms``: messages of any JMS provider as rows, and rows as messages. docs/reference/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "jms"

    def schema(self) -> str:
        from pyjms.spark.options import parse_options
        from pyjms.spark.schema import SCHEMA

        parse_options(
            self._plain_options()
        )  # Spark asks for the schema at `load()`, and for a reader only when rows are wanted
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyjms.spark.source import batch_reader

        return batch_reader(self._plain_options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyjms.spark.source import stream_reader

        return stream_reader(self._plain_options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyjms.spark.sink import batch_writer

        return batch_writer(self._plain_options(), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pyjms.spark.sink import stream_writer

        return stream_writer(self._plain_options(), schema)

    def _plain_options(self) -> dict[str, Any]:
        return dict(self.options)
