-- What people answered: who, when, to what, and whether it was taken back.
CREATE VIEW reviews AS
SELECT r.corpus, r.action_id, r.action, r.recommendation_id, r.recommendation_type, r.resolution,
       r.entry_ids::text AS entry_ids, r.actor_id, r.effective_at, c.recorded_at,
       EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = r.corpus AND x.action_id = r.action_id) AS undone
FROM review_actions r
JOIN changes c USING (change_id);
