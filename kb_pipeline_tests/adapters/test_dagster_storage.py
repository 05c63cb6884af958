"""Dagster's records: the project's own dagster.yaml and workspace.yaml, over an embedded and a configured server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from ruamel.yaml import YAML

from kb_pipeline.adapters.dagster_storage import (
    dagster_instance,
    dagster_yaml,
    prepare_dagster_home,
    workspace_yaml,
)
from kb_pipeline.adapters.database_url import connect, with_database
from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
from kb_pipeline.errors import DatabaseError, UsageError

PROJECT = Path(__file__).parents[2]

DEFINITIONS = """
import dagster as dg

@dg.asset
def greeting() -> str:
    return "hello"

greet = dg.define_asset_job("greet", selection=[greeting], executor_def=dg.in_process_executor)
defs = dg.Definitions(assets=[greeting], jobs=[greet])
"""


@dg.op
def work() -> int:
    """Some output to store."""
    return 1


@dg.job(executor_def=dg.in_process_executor)
def working() -> None:
    """A job of one step."""
    work()


@pytest.fixture(scope="module")
def embedded_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("my home")
    yield home
    EmbeddedPostgres(home / "postgres").stop()


@pytest.fixture
def home(embedded_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KB_HOME", str(embedded_home))
    return embedded_home


def run_ids(instance: dg.DagsterInstance) -> list[str]:
    return [run.run_id for run in instance.get_runs()]


def test_the_file_says_what_it_should(home: Path) -> None:
    with dagster_instance() as instance:
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        assert instance.run_retries_enabled
        assert not instance.run_retries_retry_on_asset_or_op_failure
        assert instance.run_monitoring_enabled
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.tag_concurrency_limits == [
            {"key": "dagster/partition/corpus", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
        ]
        assert instance.storage_directory() == str(home / "dagster/storage")


def test_runs_are_kept_on_the_embedded_server(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dagster_instance() as instance:
        done = working.execute_in_process(instance=instance)
    assert (home / "dagster/compute_logs").is_dir()
    monkeypatch.chdir(tmp_path)
    with dagster_instance() as instance:
        assert done.run_id in run_ids(instance)
    with closing(connect(EmbeddedPostgres(home / "postgres").url_of("kb_dagster"))) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT status FROM runs WHERE run_id = %s", (done.run_id,))
        assert cursor.fetchone() == ("SUCCESS",)
    assert list(tmp_path.iterdir()) == []


def test_a_held_instance_gets_over_a_killed_server(home: Path) -> None:
    server = EmbeddedPostgres(home / "postgres")
    with dagster_instance() as instance:
        before = run_ids(instance)
        os.kill(int((server.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        while server._lives():
            pass
        assert run_ids(instance) == before
    assert server.is_running()


def test_events_do_not_wait_for_the_disk_and_connections_are_kept(home: Path) -> None:
    with dagster_instance() as instance:
        with instance.event_log_storage._connect() as connection:  # type: ignore[attr-defined]
            shown = {
                name: connection.exec_driver_sql(f"SHOW {name}").scalar()
                for name in ("synchronous_commit", "timezone", "statement_timeout")
            }
            first = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        with instance.event_log_storage._connect() as connection:  # type: ignore[attr-defined]
            assert connection.exec_driver_sql("SELECT pg_backend_pid()").scalar() == first
    assert shown == {"synchronous_commit": "off", "timezone": "UTC", "statement_timeout": "1min"}


def test_a_partition_is_known_at_once_and_for_a_while(home: Path) -> None:
    with dagster_instance() as instance, dagster_instance() as other:
        assert not instance.has_dynamic_partition("corpus", "acme")
        other.add_dynamic_partitions("corpus", ["acme"])
        assert instance.has_dynamic_partition("corpus", "acme")
        other.delete_dynamic_partition("corpus", "acme")
        assert not other.has_dynamic_partition("corpus", "acme")
        # Remembered: a run asks for its own partition hundreds of times.
        assert instance.has_dynamic_partition("corpus", "acme")
        assert instance.get_dynamic_partitions("corpus") == []


def test_a_command_does_not_capture_what_it_prints(home: Path) -> None:
    before = set((home / "dagster").rglob("*.out"))
    with dagster_instance(capture_output=False) as instance:
        quiet = working.execute_in_process(instance=instance)
        assert quiet.run_id in run_ids(instance)
    assert set((home / "dagster").rglob("*.out")) == before
    with dagster_instance() as instance:
        working.execute_in_process(instance=instance)
    assert len(set((home / "dagster").rglob("*.out"))) == len(before) + 1


def test_the_dagster_command_and_kb_share_the_records(home: Path, tmp_path: Path) -> None:
    for name in ("dagster.yaml", "workspace.yaml"):
        (tmp_path / name).write_bytes((PROJECT / name).read_bytes())
    (tmp_path / "greetings.py").write_text(DEFINITIONS)
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "greetings", "-j", "greet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with dagster_instance() as instance:
        assert [run.status for run in instance.get_runs() if run.job_name == "greet"] == [dg.DagsterRunStatus.SUCCESS]
    assert (home / "dagster/storage/greeting").is_file()


def test_runs_are_kept_beside_a_configured_database(
    empty_database_url: str, postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_HOME", str(tmp_path))
    monkeypatch.setenv("KB_DATABASE_URL", empty_database_url.replace("postgresql://", "postgres://"))
    name = f"{empty_database_url.partition('?')[0].split('/')[-1]}_dagster"
    try:
        with dagster_instance() as instance:
            done = working.execute_in_process(instance=instance)
            assert run_ids(instance) == [done.run_id]
        assert not (tmp_path / "postgres").exists()
        with closing(connect(with_database(postgres_server, name))) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT run_id FROM runs")
            assert cursor.fetchall() == [(done.run_id,)]
    finally:
        with closing(connect(postgres_server)) as connection:
            connection.autocommit = True
            connection.cursor().execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_dagster_home_decides(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dagster_instance() as instance:
        assert instance.root_directory == str(tmp_path)
        assert run_ids(instance) == []
    assert prepare_dagster_home() == tmp_path
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match=r"DAGSTER_HOME is .*absent.* not a directory"), dagster_instance():
        pass


def test_a_home_for_dagsters_own_commands(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare_dagster_home() == home / "dagster"
    with dagster_instance() as instance:
        ours = run_ids(instance)
    monkeypatch.setenv("DAGSTER_HOME", str(prepare_dagster_home()))
    with dg.DagsterInstance.get() as instance:
        assert run_ids(instance) == ours


def test_the_file_of_the_working_directory_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dagster_yaml() == PROJECT / "dagster.yaml"
    (tmp_path / "dagster.yaml").touch()
    assert dagster_yaml() == tmp_path / "dagster.yaml"
    # The definitions are this project's wherever one stands.
    (tmp_path / "workspace.yaml").touch()
    assert workspace_yaml() == PROJECT / "workspace.yaml"


def test_an_unreachable_server_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_HOME", str(tmp_path))
    monkeypatch.setenv("KB_DATABASE_URL", "postgresql://u:hidden@127.0.0.1:1/d")
    with pytest.raises(DatabaseError, match=r"cannot connect to postgresql://u@127\.0\.0\.1:1/d"), dagster_instance():
        pass


def test_the_workspace_names_the_definitions() -> None:
    loaded = YAML(typ="safe").load(PROJECT / "workspace.yaml")
    assert [place["python_module"]["module_name"] for place in loaded["load_from"]] == ["kb_pipeline.definitions"]
