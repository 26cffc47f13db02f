"""The Redis store, for more than one machine: everything under one prefix of a Redis or Valkey server.

    store        the moves                              queries, documents   what is read, and other records
    scripts/     one Lua file per operation             server       scripts, clock, definitions, hints, persistence
    connections  from a URL to a connection             errors       the server's errors in our words
    rows         questions and answers as our values

Every operation is one script, so each is atomic, and goes by the server's clock. What was acknowledged survives what
the server's persistence says (`RedisServer.persistence`): no more, and the store tells when it was less.
"""

from onthedot.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
