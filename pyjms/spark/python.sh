#!/bin/sh
# Runs the Python of PYJMS_SPARK_PYTHON for Spark's workers, which then import PySpark from where it is installed.
#
# Spark puts an archive of PySpark before everything else on their path. Python keeps no compiled modules in archives, so
# each process would compile a hundred modules at its start: more than a second of processor time, of ten seconds
# that Spark gives some of them to answer.
set -f
IFS=:
path=
for each in $PYTHONPATH; do
    case $each in
    */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
    *) path=$path${path:+:}$each ;;
    esac
done
unset IFS
PYTHONPATH=$path exec "$PYJMS_SPARK_PYTHON" "$@"
