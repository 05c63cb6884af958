"""The embedded PostgreSQL server: one per directory, started by whoever needs it first, stopped by ``kb stop``.

Belongs here: the life of the server process. Does not belong here: which URL the project uses (database_url), tables
(migrations), the account that runs the server (server_account).

Layout of the directory: ``data`` (the cluster), ``password`` (mode 0600), ``port``, ``server.log``, ``start.lock``,
``alive.lock``, and ``stopped`` after a wanted stop.

Whether a server lives is asked of the kernel, not of pid files: the server process is born holding a lock on
``alive.lock`` (an inherited open file) and hands it to each of its children, so the lock is free exactly when the last
of them is gone. Zombies hold nothing, a recycled process id means nothing, backends that outlive a killed postmaster
still count. ``start.lock`` lets one starter through at a time. Whether a living server *serves* is asked by a real
connection with the password.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kb_pipeline.adapters.postgres_cluster import (
    ROLE,
    check_version,
    create_cluster,
    last_lines,
    program,
    run_command,
    share_ownership,
    write_file,
    write_settings,
)
from kb_pipeline.adapters.server_account import account_prefix
from kb_pipeline.errors import DatabaseError

_START_SECONDS = 120.0  # recovery after a crash replays at most max_wal_size of log
_STOP_SECONDS = 120.0
_POLL_SECONDS = 0.05
_PORT_TRIES = 5
_KEPT_LOG_BYTES = 10_000_000


class EmbeddedPostgres:
    """The server of one directory. Objects hold no state: any number of them, in any process, speak of one server."""

    def __init__(self, root: Path) -> None:
        """Speaks of the server in ``root``; nothing is created or started."""
        self.root = root.absolute()
        self.data = self.root / "data"

    @property
    def url(self) -> str:
        """The libpq URL of the database ``kb``; see ``url_of``."""
        return self.url_of("kb")

    def url_of(self, database: str) -> str:
        """The libpq URL of a database of this server, with the password.

        Encryption is off (the server listens on the loopback device alone) and session options are given, so that
        ``PGSSLMODE`` and ``PGOPTIONS`` of the environment, meant for other servers, do not apply.

        Raises:
            DatabaseError: the server has never been started.
        """
        password, port = self.password, self._read("port")
        options = "options=-c%20timezone%3DUTC&sslmode=disable"
        return f"postgresql://{ROLE}:{password}@127.0.0.1:{port}/{database}?{options}"

    @property
    def password(self) -> str:
        """Password of the role ``kb``, made at the first start.

        Raises:
            DatabaseError: the server has never been started.
        """
        return self._read("password")

    def start(self) -> str:
        """Makes sure that the server runs and returns ``url``; creates the cluster at the first start.

        Safe to call from many processes at once: one of them starts the server, the others wait for it.

        Raises:
            DatabaseError: the server cannot be created or started; says why.
        """
        try:
            if not self.is_running():
                self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
                with self._starter_lock() as lock:
                    (self.root / "stopped").unlink(missing_ok=True)
                    self._bring_up(lock)
        except OSError as error:
            raise DatabaseError(
                f"cannot start the embedded server in {self.root} ({error.strerror}: {error.filename}): make room or "
                "rights there, set KB_HOME to another directory, or set KB_DATABASE_URL to a server of your own."
            ) from error
        return self.url

    def stop(self) -> bool:
        """Stops the server in an orderly way: connections are closed, everything is written. Returns whether it ran.

        Raises:
            DatabaseError: it does not stop in time.
        """
        if not self.data.exists():
            return False
        with self._starter_lock():
            write_file(self.root / "stopped", "")
            if not self._lives():
                return False
            deadline = time.monotonic() + _STOP_SECONDS
            told = False
            while self._lives():
                # Only a server that has answered to the password is surely the process that the pid file names.
                if not told and self._serves() and (pid := self._postmaster_pid()):
                    os.kill(pid, signal.SIGINT)
                    told = True
                if time.monotonic() > deadline:
                    raise DatabaseError(
                        f"the embedded server of {self.root} did not stop within {_STOP_SECONDS:.0f} seconds; "
                        f"see {self.root / 'server.log'}."
                    )
                time.sleep(_POLL_SECONDS)
            return True

    def is_running(self) -> bool:
        """Whether the server lives and answers to its password."""
        return self._lives() and self._serves()

    def revive(self) -> None:
        """Starts the server again if it crashed; leaves it alone if it lives or was stopped on purpose.

        For processes that hold on to the URL for days. Costs microseconds when there is nothing to do.
        """
        if not self._lives() and not (self.root / "stopped").exists():
            self.start()

    def _bring_up(self, lock: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        ports_tried = 0
        log_offset: int | None = None
        while not self.is_running():
            if not self._lives():
                if log_offset is not None and (ports_tried == _PORT_TRIES or not self._port_was_taken(log_offset)):
                    raise self._failure("did not start", log_offset)
                log_offset = self._launch(lock, new_port=ports_tried > 0)
                ports_tried += 1
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer within {_START_SECONDS:.0f} seconds", log_offset or 0)
            time.sleep(_POLL_SECONDS)

    def _launch(self, lock: int, *, new_port: bool) -> int:
        """Starts the server process and returns the length that its log had before. It may still fail or recover."""
        prefix = account_prefix(self.root, self.data, program("postgres"))
        if not self.data.exists():
            create_cluster(self.root, prefix, lock)
        check_version(self.data)
        self._forget_dead_postmaster()
        write_settings(self.data)
        # The port is kept over restarts, so that processes that hold the URL find the server again.
        known = self._read("port") if (self.root / "port").exists() else ""
        port = known if known.isdigit() and not new_port else str(_free_port())
        write_file(self.root / "port", port + "\n")
        log = self.root / "server.log"
        if log.exists() and log.stat().st_size > _KEPT_LOG_BYTES:
            log.replace(self.root / "server.log.1")
        offset = log.stat().st_size if log.exists() else 0
        # A shell that leaves at once makes the server an orphan, in a session of its own: no signal that a terminal
        # sends to the starter reaches it, and the starter keeps no child.
        script = 'umask 077; "$@" </dev/null >>server.log 2>&1 &'
        server = [str(program("postgres")), "-D", str(self.data), "-c", f"port={port}"]
        with self._open_lock("alive.lock") as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            run_command(self.root, [*prefix, "/bin/sh", "-c", script, "sh", *server], inherited=(descriptor,))
        return offset

    def _forget_dead_postmaster(self) -> None:
        """Takes away the pid file of a server that is gone when its number lives on as a zombie or another program.

        PostgreSQL would take that number for a running server and refuse to start. Called when nobody holds
        ``alive.lock``: what is left to rule out is a server that somebody started by hand on the same data.
        """
        pid_file = self.data / "postmaster.pid"
        process = Path("/proc") / str(self._postmaster_pid())
        if not pid_file.exists() or not process.exists():
            return
        try:
            dead = not (process / "cwd").readlink().samefile(self.data)
        except OSError:
            dead = True  # a zombie, or a process of another user, who cannot serve these data
        if not dead:
            raise DatabaseError(
                f"process {process.name} already serves {self.data} and was not started by kb: "
                "stop it (pg_ctl stop), then try again."
            )
        pid_file.unlink(missing_ok=True)

    def _serves(self) -> bool:
        import psycopg2

        try:
            # A stranger on a stale port must not be able to ask for the password in clear.
            address = self.url.replace("?", "?require_auth=scram-sha-256&connect_timeout=5&", 1)
        except DatabaseError:
            return False
        try:
            psycopg2.connect(address).close()
        except psycopg2.OperationalError as error:
            message = str(error)
            if "password authentication failed" in message:
                raise DatabaseError(
                    f"the embedded server of {self.root} does not accept {self.root / 'password'}: "
                    "the file was changed; put the old one back."
                ) from error
            # A full server is a living server: the caller's own connection will say that it is full.
            return "too many clients" in message or "connection slots" in message
        return True

    def _lives(self) -> bool:
        """Whether any process of a server is left, be it starting, serving, recovering or ending."""
        try:
            with self._open_lock("alive.lock") as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def _postmaster_pid(self) -> int:
        """Process id in the pid file; 0 when there is none. Never to be signalled unchecked: 0 means everybody."""
        pid_file = self.data / "postmaster.pid"
        first_line = pid_file.read_text().partition("\n")[0] if pid_file.exists() else ""
        return int(first_line) if first_line.isdigit() else 0

    @contextmanager
    def _starter_lock(self) -> Iterator[int]:
        with self._open_lock("start.lock") as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor

    @contextmanager
    def _open_lock(self, name: str) -> Iterator[int]:
        path = self.root / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise DatabaseError(
                f"may not open {path}: the embedded server's directory belongs to another user. Run kb as that user, "
                "set KB_HOME to a directory of your own, or set KB_DATABASE_URL."
            ) from error
        try:
            share_ownership(path)
            yield descriptor
        finally:
            os.close(descriptor)

    def _read(self, name: str) -> str:
        try:
            return (self.root / name).read_text().strip()
        except FileNotFoundError as error:
            raise DatabaseError(
                f"the embedded server of {self.root} has no file {name!r}: it was never started (run kb init)."
            ) from error

    def _port_was_taken(self, log_offset: int) -> bool:
        return "could not create any TCP/IP sockets" in self._log_since(log_offset)

    def _log_since(self, offset: int) -> str:
        log = self.root / "server.log"
        return log.read_bytes()[offset:].decode(errors="replace") if log.exists() else ""

    def _failure(self, what: str, log_offset: int) -> DatabaseError:
        ending = last_lines(self._log_since(log_offset))
        return DatabaseError(
            f"the embedded server of {self.root} {what}; its log {self.root / 'server.log'} ends: {ending}"
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
