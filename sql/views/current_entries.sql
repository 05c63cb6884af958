-- Every entry as it stands now, with its current text.
CREATE VIEW current_entries AS
SELECT e.corpus, e.entry_id, e.kind, v.title, coalesce(d.body, v.body) AS body, e.tenant, e.repository, e.module,
       e.state, e.state_reason, e.state_changed_at, e.merged_into, e.superseded_by, e.conflict_state, v.confidence,
       v.pinned,
       CASE WHEN EXISTS (
           SELECT 1 FROM entry_approvals a
           WHERE a.corpus = e.corpus AND a.entry_id = e.entry_id AND a.content_hash = e.content_hash AND a.approves
             AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = a.corpus AND x.action_id = a.action_id)
       ) THEN 'approved' ELSE v.review_state END AS review_state,
       e.attempts, e.successes, e.retrievals, e.last_matched_at, e.evidence_count, e.distinctiveness,
       v.created_at, greatest(v.updated_at, d.effective_at) AS updated_at
FROM entries e
JOIN entry_versions v USING (corpus, entry_id, version_number)
LEFT JOIN entry_edits d ON d.corpus = e.corpus AND d.entry_id = e.entry_id AND d.action_id = e.edit_action_id;
