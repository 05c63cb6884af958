"""Where Dagster keeps its own records: runs and events beside the knowledge base, frames and logs under ``KB_HOME``.

Belongs here: the classes that ``dagster.yaml`` names, so that one file serves the embedded server and a configured one,
and the instance that ``kb`` runs jobs on. Does not belong here: what is run (the definitions).

``dagster.yaml`` cannot say "this variable, or else that directory"; these classes can. They take no configuration:
everything comes from the environment, in each process anew.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg2
from dagster import DagsterInstance
from dagster._config.config_schema import UserConfigSchema
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.base_storage import DagsterStorage
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._core.storage.root import LocalArtifactStorage
from dagster._serdes import ConfigurableClass, ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
from dagster_postgres.auth import PgTokenProvider
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DisconnectionError

from kb_pipeline.adapters.database_url import dagster_database_url, embedded_server, kb_home, sqlalchemy_url
from kb_pipeline.adapters.postgres_cluster import write_file
from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
from kb_pipeline.errors import UsageError

_STATEMENT_TIMEOUT_MS = 60_000
_RECYCLE_SECONDS = 3600
_SPARE_CONNECTIONS = 10
_REMEMBER_SECONDS = 5.0
# When the machine loses power, the records of runs may lose their last moment, and nothing else: what runs decide
# stands in the other database, which waits for the disk. Several hundred events a run do not.
_NO_WAIT = "-c synchronous_commit=off"

_NO_CAPTURE: dict[str, Any] = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


class KnowledgeBaseStorage(DagsterStorage, ConfigurableClass):
    """Dagster's run, event and schedule storage in the database of ``dagster_database_url``.

    Names the storage in ``dagster.yaml``; what Dagster gets is its own ``DagsterPostgresStorage``, which keeps its
    connections: by default it opens one for every event, several hundred in a run.
    """

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """No configuration."""
        return {}

    @classmethod
    def from_config_value(  # type: ignore[override]
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> DagsterPostgresStorage:
        """Starts the embedded server if one is used, and opens the storage.

        Raises:
            DatabaseError: there is no database to be had; see ``dagster_database_url``.
        """
        url = sqlalchemy_url(dagster_database_url())
        server = embedded_server()
        if server is None:
            storage = _Storage(postgres_url=url, inst_data=inst_data)
        else:
            storage = _Storage(postgres_url=_without_waiting(url), inst_data=inst_data, token_provider=_Revival(server))
        storage.keep_connections()
        return storage


class HomeArtifactStorage(LocalArtifactStorage):
    """Files of runs under ``KB_HOME/dagster``, however the instance was started."""

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """No configuration."""
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """The storage; its directory is created when it is first written to."""
        return cls(str(_dagster_home()), inst_data)


class HomeComputeLogManager(LocalComputeLogManager):
    """What runs print, under ``KB_HOME/dagster/compute_logs``."""

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """No configuration."""
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """The log manager; its directory is created when it is first written to."""
        return cls(str(_dagster_home() / "compute_logs"), inst_data=inst_data)


@contextmanager
def dagster_instance(*, capture_output: bool = True) -> Iterator[DagsterInstance]:
    """The instance that ``dagster dev`` of this project uses too, from any working directory.

    ``DAGSTER_HOME`` decides when it is set; else the ``dagster.yaml`` of the working directory, of the project or of
    the installed package is read.

    Args:
        capture_output: whether runs write what they print into files, for which each starts four processes more. A
            command that somebody looks at does not need them.

    Raises:
        DatabaseError: Dagster's database cannot be reached.
        UsageError: ``DAGSTER_HOME`` is not a directory.
    """
    configured = _configured_home()
    overrides = None if capture_output else _NO_CAPTURE
    if configured is not None:
        reference = InstanceRef.from_dir(str(configured), overrides=overrides)
    else:
        _dagster_home().mkdir(parents=True, exist_ok=True)
        where = str(dagster_yaml().parent)
        reference = InstanceRef.from_dir(str(_dagster_home()), config_dir=where, overrides=overrides)
    with DagsterInstance.from_ref(reference) as instance:
        yield instance


def prepare_dagster_home() -> Path:
    """A directory to give as ``DAGSTER_HOME`` to Dagster's own commands, so that they see what ``kb`` sees.

    ``DAGSTER_HOME`` itself when it is set; else ``KB_HOME/dagster``, with a copy of the ``dagster.yaml`` in force.

    Raises:
        UsageError: ``DAGSTER_HOME`` is not a directory, or there is no ``dagster.yaml``.
    """
    configured = _configured_home()
    if configured is not None:
        return configured
    _dagster_home().mkdir(parents=True, exist_ok=True)
    write_file(_dagster_home() / "dagster.yaml", dagster_yaml().read_text(encoding="utf-8"))
    return _dagster_home()


def dagster_yaml() -> Path:
    """The ``dagster.yaml`` in force without ``DAGSTER_HOME``: that of the working directory, else the project's.

    Raises:
        UsageError: there is none, not even in the installed package.
    """
    own = Path.cwd() / "dagster.yaml"
    return own if own.is_file() else _project_file("dagster.yaml")


def workspace_yaml() -> Path:
    """The ``workspace.yaml`` that names the definitions of this project, and no other's.

    Raises:
        UsageError: it is missing from the installed package.
    """
    return _project_file("workspace.yaml")


def _project_file(name: str) -> Path:
    package = Path(__file__).parents[1]
    for directory in (package.parent, package / "project"):
        if (directory / name).is_file():
            return directory / name
    raise UsageError(f"{name} is missing beside {package}: install kb_pipeline again.")


def _configured_home() -> Path | None:
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        return None
    if not Path(home).is_dir():
        raise UsageError(f"DAGSTER_HOME is {home!r}, which is not a directory: create it, or unset the variable.")
    return Path(home).resolve()


def _without_waiting(url: str) -> str:
    """The URL with ``_NO_WAIT`` among its session options."""
    parsed = make_url(url)
    options = " ".join([*parsed.normalized_query.get("options", ()), _NO_WAIT])
    return parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)


def _dagster_home() -> Path:
    return kb_home() / "dagster"


class _EventLog(PostgresEventLogStorage):
    """Event log that remembers for some seconds which partitions exist: a run asks for its own hundreds of times."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._seen: dict[tuple[str, str], float] = {}

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Whether a partition exists; a deleted one may be taken as present for ``_REMEMBER_SECONDS``."""
        key = (partitions_def_name, partition_key)
        now = time.monotonic()
        if self._seen.get(key, 0.0) > now:
            return True
        exists = bool(super().has_dynamic_partition(partitions_def_name, partition_key))
        if exists:
            self._seen[key] = now + _REMEMBER_SECONDS
        return exists


class _Storage(DagsterPostgresStorage):
    """Dagster's storage with that event log."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        own = {name: settings[name] for name in ("postgres_url", "token_provider") if name in settings}
        self._event_log_storage = _EventLog(**own)

    def keep_connections(self) -> None:
        """Keeps a connection open for each of the three storages, and finds out in time when its server was restarted."""
        for part in (self._run_storage, self._event_log_storage, self._schedule_storage):
            part.optimize_for_webserver(_STATEMENT_TIMEOUT_MS, _RECYCLE_SECONDS, _SPARE_CONNECTIONS)
            event.listen(part._engine, "checkout", _refuse_dead_connection)


def _refuse_dead_connection(connection: Any, _record: Any, _proxy: Any) -> None:
    """Lets SQLAlchemy open another connection when the server has hung up on this one since it was last used."""
    # As a rule nobody speaks on a connection that waits, and to ask the server each time would cost a round trip.
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    if not poll.poll(0):
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except psycopg2.Error as error:
        raise DisconnectionError from error


class _Revival(PgTokenProvider):
    """Brings a crashed embedded server back before Dagster connects to it.

    Dagster asks for the password before every connection. A daemon that runs for weeks thus gets over a killed server,
    which nobody else may be there to start.
    """

    def __init__(self, server: EmbeddedPostgres) -> None:
        super().__init__()
        self._server = server

    def get_token(self) -> str:
        self._server.revive()
        return self._server.password

    def _fetch_token(self) -> tuple[str, float]:
        return self.get_token(), 0.0
