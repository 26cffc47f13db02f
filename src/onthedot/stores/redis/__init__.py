"""For more than one machine: everything under one prefix of a Redis or Valkey server.

    store        the moves                              queries, documents   what is read, and other records
    scripts/     one Lua file per operation             server       scripts, clock, definitions, decisions in steps
    url          what the store's URL says              connections  lent to one call, ended when in doubt
    failures     the server's errors in our words       wakeup       hints from process to process
    persistence  what the server keeps when it dies     rows         questions and answers as our values

Every operation is one script, so each is atomic, and goes by the server's clock. What was acknowledged survives what
the server's persistence says (`RedisServer.persistence`): no more, and the store tells when it was less.
"""

from onthedot.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
