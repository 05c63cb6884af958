"""Server time of the review pages over a long queue: python bench/queue_pages.py [ENTRIES] [QUESTIONS].

Imports entries into a database of its own on the embedded server, writes questions about pairs of them straight into their
table, and asks for pages as a browser would, without a network between: the first page after a start, more pages, one
question, and the page after an answer. Prints medians of wall-clock time and of the CPU time of this process; the
database's own time is only in the former.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from fastapi.testclient import TestClient

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.importing import import_rows
from kb_pipeline.adapters.migrations import migrate
from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
from kb_pipeline.adapters.row_files import read_chunks
from kb_pipeline.web.app import build_app
from kb_pipeline.web.settings import Settings

TOKEN = "token-of-the-bench-0123456789"
REPEATS = 7
_QUESTIONS = """
INSERT INTO recommendations (recommendation_id, corpus, recommendation_type, severity, entry_ids, content_hashes, reason,
                             value, action_id, change_id, effective_at)
SELECT 'rec_' || lpad(to_hex(n), 24, '0'), 'bench', 'MERGE', 'medium', json_build_array(a.entry_id, b.entry_id),
       json_build_array(a.content_hash, b.content_hash), 'judge.residue', 0.5 + (n %% 997) / 2000.0, 'asked ' || n,
       (SELECT max(change_id) FROM changes), '2026-11-20'
FROM generate_series(1, %(questions)s) n
JOIN entries a ON a.corpus = 'bench' AND a.entry_id = 'e' || (n %% %(entries)s)
JOIN entries b ON b.corpus = 'bench' AND b.entry_id = 'e' || ((n + 1 + n / %(entries)s) %% %(entries)s)
"""


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    questions = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with tempfile.TemporaryDirectory(prefix="kb-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres")
        try:
            _run(server.start(), entries, questions)
        finally:
            server.stop()


def _run(url: str, entries: int, questions: int) -> None:
    os.environ["KB_DATABASE_URL"] = url
    _fill(url, entries, questions)
    print(f"{questions:,} open questions about {entries:,} entries; median of {REPEATS}, in seconds")
    print(f"{'what':<34}{'wall':>8}{'CPU':>8}")
    app = build_app(Settings(token=TOKEN, actor="bench"))
    # As a context, the client keeps one event loop and its threads, as a server does.
    with TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=False) as client:
        _shown("first page after a start", *_times(lambda: _get(client, "/c/bench"), repeats=1))
        client.get("/", params={"token": TOKEN})
        for what, path in (
            ("first page", "/c/bench"),
            ("page 2,000", "/c/bench?page=2000"),
            ("list of the API", "/api/v1/corpora/bench/queue"),
        ):
            _shown(what, *_times(partial(_get, client, path)))
        links = list(dict.fromkeys(re.findall(r"/c/bench/q/(rec_[0-9a-f]+)", _get(client, "/c/bench"))))
        _shown("one question", *_times(lambda: _get(client, f"/c/bench/q/{links[0]}")))
        answers, pages = [], []
        for name in links[:REPEATS]:
            proof = re.search(r'name="proof" value="([^"]+)"', _get(client, f"/c/bench/q/{name}"))
            assert proof is not None, "no form on the page"
            form = {"action": "accept", "proof": proof[1]}
            answers += [_times(partial(_send, client, f"/c/bench/q/{name}", form), repeats=1)]
            pages += [_times(lambda: _get(client, "/c/bench"), repeats=1)]
        _shown("an answer", *map(statistics.median, zip(*answers, strict=True)))
        _shown("first page after an answer", *map(statistics.median, zip(*pages, strict=True)))


def _send(client: TestClient, path: str, form: dict[str, str]) -> None:
    sent = client.post(path, data=form)
    assert sent.status_code == 303, sent.text


def _fill(url: str, entries: int, questions: int) -> None:
    migrate(url)
    database = Database(url)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        rows = (
            {
                "id": f"e{n}",
                "kind": "fact",
                "title": f"Bay {n} of the harbour",
                "body": f"Bay {n} holds {n % 89} boats.",
            }
            for n in range(entries)
        )
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        chunks = read_chunks(path, chunk_rows=5_000, max_body_chars=10_000)
        import_rows(database, "bench", chunks, actor="bench", now=datetime(2026, 11, 1, tzinfo=UTC))
    with database.transaction() as cursor:
        cursor.execute(_QUESTIONS, {"questions": questions, "entries": entries})
        assert cursor.rowcount == questions, f"{cursor.rowcount} questions were written"


def _get(client: TestClient, path: str) -> str:
    answer = client.get(path, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200, answer.text
    return answer.text


def _times(call: Callable[[], object], *, repeats: int = REPEATS) -> tuple[float, float]:
    """Median wall-clock and CPU seconds of a call."""
    wall, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return statistics.median(wall), statistics.median(cpu)


def _shown(what: str, wall: float, cpu: float) -> None:
    print(f"{what:<34}{wall:>8.3f}{cpu:>8.3f}", flush=True)


if __name__ == "__main__":
    main()
