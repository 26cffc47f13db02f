-- When a slot came to its overlap gate, if it was overdue together with others of its schedule; NULL: at its time.
ALTER TABLE runs ADD COLUMN caught_up_at INTEGER;
