-- One line a run: what it looked at and what it changed.
CREATE VIEW run_summary AS
SELECT j.run_id, j.corpus, j.week, j.partial, j.profile, j.mode, j.status, j.selected_count, j.updated_count,
       j.started_at, j.completed_at, j.completed_at - j.started_at AS duration, j.actor_id, j.message
FROM memory_maintenance_jobs j;
