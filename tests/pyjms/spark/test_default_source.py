"""The module that PySpark imports wherever it looks for data sources: light, and never a hindrance."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LIGHT = "import sys, pyspark_jms; print(sorted({name.partition('.')[0] for name in sys.modules} & {'pyarrow', 'pyjms', 'stomp'}))"
_WITHOUT_PYSPARK = (
    "import sys; sys.modules['pyspark'] = None; import pyspark_jms; print(pyspark_jms.DefaultSource.name())"
)


@pytest.mark.parametrize(("program", "told"), [(_LIGHT, "[]"), (_WITHOUT_PYSPARK, "jms")])
def test_importing_it_is_light_and_works_without_pyspark(program: str, told: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == told
