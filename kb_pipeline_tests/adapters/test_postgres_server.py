"""The embedded server's life: starts, stops, crashes, accounts. Every test runs real servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest

from kb_pipeline.adapters.database_url import connect
from kb_pipeline.adapters.postgres_cluster import program
from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
from kb_pipeline.adapters.server_account import account_prefix
from kb_pipeline.errors import DatabaseError

Start = Callable[[Path], EmbeddedPostgres]

STARTER = """
import sys
from pathlib import Path
from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1])).start(), flush=True)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers and stops them after the test."""
    servers: list[EmbeddedPostgres] = []

    def starts(root: Path) -> EmbeddedPostgres:
        servers.append(EmbeddedPostgres(root))
        servers[-1].start()
        return servers[-1]

    yield starts
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place whose path is as awkward, and longer than a socket's may be."""
    root = tmp_path_factory.mktemp("shared") / 'it\'s a "quoted" $HOME; dir' / ("long" * 40) / "postgres"
    yield root
    EmbeddedPostgres(root).stop()


@pytest.fixture
def server(shared_root: Path) -> EmbeddedPostgres:
    """A running server, shared by the tests that leave it usable; each may stop or kill it."""
    server = EmbeddedPostgres(shared_root)
    server.start()
    return server


def ask(server: EmbeddedPostgres, statement: str) -> Any:
    with closing(connect(server.url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def postmaster(server: EmbeddedPostgres) -> int:
    return int((server.data / "postmaster.pid").read_text().splitlines()[0])


def starter(root: Path, *prefix: str, **options: Any) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-c", STARTER, str(root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_first_start_makes_what_is_needed(server: EmbeddedPostgres) -> None:
    assert server.is_running()
    assert server.start() == server.url
    assert ask(server, "SHOW data_directory") == str(server.data)
    databases = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate"
    assert ask(server, databases) == "kb kb_dagster postgres"
    letters = "SELECT string_agg(x, '' ORDER BY x) FROM unnest(ARRAY['b', 'a', 'B', 'A', '-', 'é', '中']) x"
    assert ask(server, letters) == "-ABabé中"
    assert ask(server, "SELECT lower('É') || current_setting('server_encoding')") == "éUTF8"
    for name in ("synchronous_commit", "fsync", "full_page_writes"):
        assert ask(server, f"SHOW {name}") == "on"
    assert int(ask(server, "SHOW max_connections")) >= 100


def test_nobody_is_trusted(server: EmbeddedPostgres) -> None:
    assert (server.root / "password").stat().st_mode & 0o777 == 0o600
    for directory in (server.root, server.data):
        assert directory.stat().st_mode & 0o077 == 0
    address = psycopg2.extensions.parse_dsn(server.url)
    for password in ("", "wrong", server.password[:-1]):
        with pytest.raises(psycopg2.OperationalError, match="password"):
            psycopg2.connect(**{**address, "password": password, "passfile": os.devnull})
    rules = "SELECT string_agg(DISTINCT type || ' ' || address || ' ' || auth_method, ';') FROM pg_hba_file_rules"
    assert ask(server, rules) == "host 127.0.0.1 scram-sha-256"
    stored = "SELECT rolpassword FROM pg_authid WHERE rolname = 'kb'"
    assert ask(server, stored).startswith("SCRAM-SHA-256$")
    command_line = Path(f"/proc/{postmaster(server)}/cmdline").read_bytes()
    assert server.password.encode() not in command_line


def test_it_listens_on_the_loopback_device_alone(server: EmbeddedPostgres) -> None:
    port = int(psycopg2.extensions.parse_dsn(server.url)["port"])
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).exists()
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
    ]
    assert listening == [f"0100007F:{port:04X}"]
    assert ask(server, "SHOW unix_socket_directories") == ""


def test_texts_of_failing_statements_stay_out_of_the_log(server: EmbeddedPostgres) -> None:
    ask(server, "CREATE TABLE narrow (body text CHECK (length(body) < 5))")
    with pytest.raises(psycopg2.Error):
        ask(server, "INSERT INTO narrow VALUES ('the secret body')")
    log = (server.root / "server.log").read_text()
    assert "violates check constraint" in log
    assert "secret body" not in log


def test_stop_and_start_again(server: EmbeddedPostgres) -> None:
    ask(server, "CREATE TABLE kept AS SELECT 7 AS seven")
    url = server.url
    with closing(connect(url)):
        assert server.stop()
    assert not server.is_running()
    assert not server.stop()
    with pytest.raises(DatabaseError, match="refused"):
        connect(url)
    assert server.start() == url
    assert ask(server, "SELECT seven FROM kept") == 7


def test_recovers_after_the_server_was_killed(server: EmbeddedPostgres) -> None:
    url = server.url
    with closing(connect(url)) as busy, busy.cursor() as cursor:
        cursor.execute("CREATE TABLE survivors AS SELECT generate_series(1, 1000) AS n")
        busy.commit()
        cursor.execute("INSERT INTO survivors VALUES (0)")
        os.kill(postmaster(server), signal.SIGKILL)
        assert server.start() == url
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("SELECT 1")
    assert ask(server, "SELECT count(*) FROM survivors") == 1000


def test_waits_for_what_outlives_a_killed_server(server: EmbeddedPostgres) -> None:
    address = {**psycopg2.extensions.parse_dsn(server.url), "async_": 1}
    with closing(psycopg2.connect(**address)) as busy:
        while busy.poll() != psycopg2.extensions.POLL_OK:
            time.sleep(0.01)
        # A backend that is busy does not notice that its server is gone.
        busy.cursor().execute("SELECT count(*) FROM generate_series(1, 5000000) a WHERE md5(a::text) = ''")
        time.sleep(0.2)
        before = postmaster(server)
        os.kill(before, signal.SIGKILL)
        time.sleep(0.2)
        assert server._lives()
        assert not server.is_running()
        server.start()
    assert postmaster(server) != before
    assert "pre-existing shared memory" not in (server.root / "server.log").read_text()


def test_revive_brings_back_what_crashed_and_not_what_was_stopped(server: EmbeddedPostgres) -> None:
    os.kill(postmaster(server), signal.SIGKILL)
    while server.is_running() or server._lives():
        time.sleep(0.01)
    server.revive()
    assert server.is_running()
    server.stop()
    server.revive()
    assert not server.is_running()
    server.start()
    assert server.is_running()


@pytest.mark.parametrize("kind", ["another program", "zombie", "nobody"])
def test_a_stale_pid_file_is_no_server(server: EmbeddedPostgres, kind: str) -> None:
    server.stop()
    with subprocess.Popen(["sleep", "60"]) as other:
        if kind != "another program":
            other.kill()
        if kind == "nobody":
            other.wait()
        (server.data / "postmaster.pid").write_text(f"{other.pid}\n{server.data}\n0\n1\n\n127.0.0.1\n")
        assert not server.stop()
        server.start()
        assert postmaster(server) != other.pid
        assert server.stop()
        if kind == "another program":
            assert other.poll() is None
        other.kill()


def test_a_server_started_by_hand_is_left_alone(server: EmbeddedPostgres) -> None:
    server.stop()
    command = [*account_prefix(server.root, server.data, program("postgres")), str(program("postgres"))]
    with subprocess.Popen([*command, "-D", str(server.data), "-p", "1"], stderr=subprocess.DEVNULL) as refused:
        refused.wait()  # the control: a server that could not start is no obstacle
    server.start()
    server.stop()
    port = (server.root / "port").read_text().strip()
    with subprocess.Popen([*command, "-D", str(server.data), "-p", port], stderr=subprocess.DEVNULL) as by_hand:
        while not server._serves():
            assert by_hand.poll() is None
            time.sleep(0.01)
        with pytest.raises(DatabaseError, match=rf"process {by_hand.pid} already serves .* not started by kb"):
            server.start()
        assert by_hand.poll() is None
        by_hand.send_signal(signal.SIGINT)


def test_takes_another_port_when_its_own_is_taken(server: EmbeddedPostgres) -> None:
    server.stop()
    old = int((server.root / "port").read_text())
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", old))
        other.listen()
        server.start()
        assert int((server.root / "port").read_text()) != old
        assert ask(server, "SELECT 1") == 1


def test_the_environment_does_not_reach_the_server(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    server.stop()
    for name, value in {
        "PGHOST": "nowhere.invalid",
        "PGPORT": "1",
        "PGDATA": "/nonexistent",
        "PGUSER": "stranger",
        "PGDATABASE": "other",
        "PGPASSWORD": "wrong",
        "PGOPTIONS": "-c search_path=elsewhere",
        "PGSSLMODE": "require",
        "ANTHROPIC_API_KEY": "key-of-the-caller",
    }.items():
        monkeypatch.setenv(name, value)
    server.start()
    assert ask(server, "SHOW search_path") == '"$user", public'
    environment = Path(f"/proc/{postmaster(server)}/environ").read_bytes()
    assert b"PATH=" in environment
    assert b"key-of-the-caller" not in environment
    assert b"nowhere.invalid" not in environment


def test_data_of_another_version_are_refused(server: EmbeddedPostgres) -> None:
    server.stop()
    version = server.data / "PG_VERSION"
    ours = version.read_text()
    version.write_text("17\n")
    with pytest.raises(DatabaseError, match=rf"written by PostgreSQL 17, but PostgreSQL {ours.strip()} is installed"):
        server.start()
    version.unlink()
    with pytest.raises(DatabaseError, match="not the data directory of a PostgreSQL server"):
        server.start()
    version.write_text(ours)
    server.start()


def test_a_broken_server_is_reported_with_the_end_of_its_log(server: EmbeddedPostgres) -> None:
    server.stop()
    control_file = server.data / "global/pg_control"
    kept = control_file.read_bytes()
    control_file.write_bytes(b"")
    with pytest.raises(DatabaseError, match=r"did not start; its log .* ends: .*pg_control"):
        server.start()
    control_file.write_bytes(kept)
    server.start()


def test_many_starters_make_one_server(tmp_path: Path, start: Start) -> None:
    root = tmp_path / "postgres"
    starters = [starter(root) for _ in range(5)]
    urls = {process.communicate()[0].strip() for process in starters}
    assert urls == {start(root).url}
    log = (root / "server.log").read_text()
    assert log.count("ready to accept connections") == 1


def test_a_starter_may_be_killed_at_any_moment(tmp_path: Path, start: Start) -> None:
    root = tmp_path / "postgres"
    for delay_seconds in (0.1, 0.3, 0.5, 0.7):
        process = starter(root)
        time.sleep(delay_seconds)
        process.kill()
        process.communicate()
    assert ask(start(root), "SELECT count(*) FROM pg_database WHERE datname LIKE 'kb%'") == 2


def test_the_server_outlives_its_starter_and_the_terminal(tmp_path: Path, start: Start) -> None:
    root = tmp_path / "postgres"
    process = starter(root, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("postgresql://")
    process.communicate()
    server = EmbeddedPostgres(root)
    assert os.getsid(postmaster(server)) != process.pid
    before = postmaster(server)
    victim = subprocess.Popen(
        [sys.executable, "-c", STARTER + "import time; time.sleep(60)", str(root)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert victim.stdout is not None
    victim.stdout.readline()
    os.killpg(victim.pid, signal.SIGKILL)
    victim.communicate()
    assert server.is_running()
    assert postmaster(start(root)) == before


def test_what_was_never_started(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres")
    assert not server.is_running()
    assert not server.stop()
    with pytest.raises(DatabaseError, match="never started"):
        _ = server.url
    assert not server.root.exists()
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match=r"cannot start the embedded server in .*Not a directory"):
        EmbeddedPostgres(tmp_path / "file/postgres").start()
