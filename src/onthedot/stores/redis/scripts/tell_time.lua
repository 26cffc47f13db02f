-- What time it is by the server's clock: `Store.tell_time`.
-- Uses:

return
