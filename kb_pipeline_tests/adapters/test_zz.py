import time, json
from kb_pipeline_tests.fakes.corpus import *
def test_x(database_url):
    c=Corpus(database_url)
    N=100_000
    rows=[{"id":f"e{n:06d}","kind":"fact","title":f"Entry number {n} of the corpus","body":f"text body {n} "*20,"tags":["a","b"],"created_at":"2026-01-01","attempts":n%30,"successes":n%7 if n%30>=n%7 else 0,"evidence":[{"type":"file","path":f"p{n}.py","line_start":1}],"usage":[{"id":f"u{n}","type":"cited","at":"2026-05-01"}]} for n in range(N)]
    content=b"".join(json.dumps(r).encode()+b"\n" for r in rows)
    def t(n,f):
        a=time.perf_counter(); p=time.process_time(); r=f(); print(f"{n:12} wall {time.perf_counter()-a:.2f} cpu {time.process_time()-p:.2f}"); return r
    import kb_pipeline_tests.fakes.corpus as fc
    def load():
        p=Path("/tmp/kb/exp/big.jsonl"); p.write_bytes(content)
        return import_rows(c.database,c.name,read_chunks(p,max_body_chars=10**6),actor="t",now=NOW)
    print(t("import",load))
    print(t("repeat",load))
    run=t("open",lambda:c.open())
    e=t("entries",lambda:c.entries(run))
    d=Decisions(merges={f"e{n:06d}":f"e{n+1:06d}" for n in range(0,10000,2)},scores={f"e{n:06d}":0.5 for n in range(N)})
    t("plan",lambda:c.plan(run,d))
    t("apply",lambda:c.apply(run,d))
    b=t("export",lambda:c.export())
    t("export full",lambda:c.export(full=True))
    from kb_pipeline.adapters.rolling_back import roll_back_run
    t("rollback",lambda:roll_back_run(c.database,run.run_id,actor="a"))
    t("repeat2",load)
