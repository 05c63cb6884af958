-- What was archived, why, and by which run: each can be rolled back.
CREATE VIEW archived_entries AS
SELECT e.corpus, e.entry_id, e.kind, v.title, e.state_reason AS reason, e.state_changed_at AS archived_at,
       e.merged_into, h.run_id, h.rule, h.policy_fingerprint
FROM entries e
JOIN entry_versions v USING (corpus, entry_id, version_number)
LEFT JOIN LATERAL (
    SELECT s.run_id, s.rule, s.policy_fingerprint
    FROM entry_state_history s
    WHERE s.corpus = e.corpus AND s.entry_id = e.entry_id AND s.to_state = e.state
      AND NOT EXISTS (SELECT 1 FROM event_voids v WHERE v.corpus = s.corpus AND v.action_id = s.action_id)
    ORDER BY s.effective_at DESC, s.change_id DESC
    LIMIT 1
) h ON true
WHERE e.state = 'archived';
