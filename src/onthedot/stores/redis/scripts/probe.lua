-- Ask every node to beat now, by a hint: `Store.probe`.
-- Uses:

hint('beats', now)
