"""What each part may import. The import contracts in pyproject.toml name what is forbidden; this names what is allowed."""

from __future__ import annotations

import sys
import tomllib

from tests.tidy.names import Names
from tests.tidy.source import LIBRARY, ROOT, name_of, parse, python_files

SECURITY = "provider/pyjms_provider/security/"
TCK = ("tck/pyjms_tck/",)
SPARK_COMMANDS = "pyjms/spark/commands/"
BROKER_COMMANDS = "provider/pyjms_provider/commands/"
COMMANDS = (
    "pyjms/cli.py",
    "pyjms/commands/",
    "pyjms/demo/",
    "pyjms/history/command.py",
    "pyjms/spi/arguments.py",
    "pyjms/spi/arguments.py",  # of commands, and for those of the provider, too
    "pyjms/spi/arguments.py",
    "pyjms/spi/terminal.py",
    SPARK_COMMANDS,
    BROKER_COMMANDS,
    *TCK,
)
# Where a dependency may be imported: `pip install pyjms-messaging` brings lark, rich and typer, the others come with an extra.
THIRD_PARTY = {
    "opentelemetry": ("pyjms/telemetry/",),
    "kombu": ("pyjms/kombu/",),
    "lark": ("pyjms/spi/selector/",),
    "defusedxml": ("pyjms/routing/facts.py",),
    "pyarrow": ("pyjms/history/parquet.py", "pyjms/spark/"),
    "py4j": ("pyjms/spark/",),  # beneath PySpark
    "pyspark": ("pyjms/spark/", "pyspark_jms/"),
    "argon2": (SECURITY,),
    "cryptography": (SECURITY, "provider/pyjms_provider/model/security.py"),
    "jwt": (SECURITY,),
    "scramp": (SECURITY,),
    "msgspec": ("provider/pyjms_provider/stores/codec.py", "provider/pyjms_provider/stores/message_format.py"),
    "psycopg": ("provider/pyjms_provider/stores/sql/",),
    "sqlalchemy": (
        "provider/pyjms_provider/stores/sql/",
        "pyjms/flows/",
        "pyjms/recoverable/",
        "pyjms/demo/sites/chain.py",
    ),
    "websocket": (
        "provider/pyjms_provider/clients/network/web_sockets.py",
        "provider/pyjms_provider/clients/stomp/sockets.py",
    ),
    "stomp": ("provider/pyjms_provider/clients/stomp/sockets.py",),
    "pydantic": ("provider/pyjms_provider/model/", "provider/pyjms_provider/management/"),
    "pydantic_core": ("provider/pyjms_provider/model/attributes.py",),
    "prometheus_client": ("provider/pyjms_provider/management/", SPARK_COMMANDS),
    "starlette": ("provider/pyjms_provider/management/", "provider/pyjms_provider/serving/"),
    "h11": ("provider/pyjms_provider/serving/http_port.py",),  # which uvicorn needs, and brings
    "anyio": ("provider/pyjms_provider/management/rest/threads.py",),  # which starlette needs, and brings
    "uvicorn": ("provider/pyjms_provider/serving/http_port.py", "provider/pyjms_provider/serving/http_port.py"),
    "tomlkit": ("provider/pyjms_provider/model/configuration/", BROKER_COMMANDS),
    "rich": COMMANDS,
    "typer": COMMANDS,
    "websockets": ("provider/pyjms_provider/transport/websocket.py",),
    "tree_sitter": ("pyjms/porting/",),
    "tree_sitter_java": ("pyjms/porting/model.py",),
    "annotationlib": ("pyjms/api/names.py",),  # of the standard library, from Python 3.14 on
    "uvloop": ("provider/pyjms_provider/transport/service.py",),
    "freezegun": ("pyjms/testing/",),
    "pytest": ("pyjms/testing/", "provider/pyjms_provider/stores/testing/", *TCK),
}
OURS = {"pyjms", "pyjms_provider", "pyjms_tck", "pyspark_jms"}
OPEN_TO_PROVIDERS = ("pyjms.spi", "pyjms.types")


def test_the_provider_imports_the_spi_and_the_value_types_alone() -> None:
    found = [
        f"{name_of(path)}:{line}: {imported}"
        for path in python_files("provider")
        for imported, line in Names(parse(path)).imported
        if imported.partition(".")[0] == "pyjms"
        and not f"{imported}.".startswith(tuple(f"{m}." for m in OPEN_TO_PROVIDERS))
    ]
    assert not found, "\n".join(found)


def test_dependencies_are_imported_only_where_they_are_installed() -> None:
    found = [
        f"{name_of(path)}:{line}: {imported}"
        for path in python_files(*LIBRARY)
        for imported, line in Names(parse(path)).imported
        if (top := imported.partition(".")[0]) not in OURS | sys.stdlib_module_names
        and not name_of(path).startswith(THIRD_PARTY.get(top, ()))
    ]
    assert not found, "\n".join(found)


CIRCLES_MAX = 24
"""Imports that close a circle among the modules of a package, which `pyproject.toml` excepts: they become fewer, never more."""


def test_circles_become_fewer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [contract] = [each for each in contracts if each["type"] == "acyclic_siblings"]
    assert len(contract["ignore_imports"]) <= CIRCLES_MAX, "cut the new circle in place of excepting it"
