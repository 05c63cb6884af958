-- Every entry as it stands now, with its current text.
CREATE VIEW current_entries AS
SELECT e.corpus, e.entry_id, e.kind, v.title, v.body, e.tenant, e.repository, e.module, e.state, e.state_reason,
       e.state_changed_at, e.merged_into, e.superseded_by, e.conflict_state, v.confidence, v.pinned, v.review_state,
       e.attempts, e.successes, e.retrievals, e.last_matched_at, e.evidence_count, e.distinctiveness,
       v.created_at, v.updated_at
FROM entries e
JOIN entry_versions v USING (corpus, entry_id, version_number);
