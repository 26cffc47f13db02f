-- Asks every node for a heartbeat now, by a hint: `Store.probe`.
-- Uses:

hint('beats', now)
