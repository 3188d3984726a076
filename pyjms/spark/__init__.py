"""JMS on Apache Spark, for amounts of data that one machine cannot hold.

It needs the extra `spark` (PySpark and pyarrow) and a Java runtime, 17 or newer. This package imports neither: a
function that needs them reports what is missing when it is called (`pyjms.spark.session`). PySpark itself finds the
data source ``format("jms")`` through the module `pyspark_jms`.
"""

from pyjms.spark.jobs import acknowledge, groups, promote, release

__all__ = ["acknowledge", "groups", "promote", "release"]
