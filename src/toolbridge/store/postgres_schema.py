"""The tables in PostgreSQL, by version: each entry changes the tables of the version before it.

An entry that was released is never changed.
"""

LOCK = 0x746F_6F6C_6272
"""The advisory lock under which tables are created; a number of our own ("toolbr")."""
MIGRATIONS = (
    """
    create table toolbridge_requests (
        id text primary key, at double precision not null, key text not null,
        client text not null, session text not null, api text not null, asked text not null,
        model text not null, provider text not null, routes text not null,
        status integer not null, error text not null, input bigint not null,
        cache_read bigint not null, cache_write bigint not null, output bigint not null,
        thinking bigint not null, estimated integer not null, cost bigint,
        currency text not null, first_token_ms double precision,
        total_ms double precision not null, healings bigint not null, losses bigint not null
    );
    create index toolbridge_requests_at on toolbridge_requests (at);
    create table toolbridge_keys (
        id text primary key, created double precision not null, record bytea not null
    );
    """,
)
