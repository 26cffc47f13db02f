"""The Redis store, for more than one machine: everything under one prefix of a Redis or Valkey server.

    store        the moves                            queries, documents   what is read, and other records
    scripts/     one Lua file per operation           server       scripts, clock, definitions, hints, persistence
    connections  from a URL to a connection           errors       translates the server's errors
    rows         converts requests and answers

Every operation is one script, so each is atomic and uses the server's clock. Acknowledged writes survive as far as the
server's persistence promises (`RedisServer.persistence`). If the server loses some of them, the store reports it.
"""

from onthedot.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
