"""The schema as a list of steps, each applied once and recorded."""

from __future__ import annotations

from typing import Final

_TREE: Final = """
    -- node_log only grows: a batch appends what changed, kind 0 marks what went, and the newest
    -- row of a path is its present. No index: a scan of 100,000 rows takes 3 ms, while every
    -- index would cost each batch and each start.
    CREATE TABLE root_log (
        seq UBIGINT NOT NULL, root BLOB NOT NULL, content_id BLOB NOT NULL,
        at_ns BIGINT NOT NULL, cause VARCHAR NOT NULL,
        files UBIGINT NOT NULL, directories UBIGINT NOT NULL, links UBIGINT NOT NULL,
        bytes UBIGINT NOT NULL,
        added UBIGINT NOT NULL, modified UBIGINT NOT NULL, removed UBIGINT NOT NULL,
        renamed UBIGINT NOT NULL
    );
    -- Hashes do not compress, and trying to is most of what closing after a first scan costs.
    CREATE TABLE node_log (
        seq UBIGINT NOT NULL,
        path VARCHAR NOT NULL USING COMPRESSION uncompressed,
        kind UTINYINT NOT NULL,
        content_id BLOB USING COMPRESSION uncompressed,
        node_id BLOB USING COMPRESSION uncompressed,
        size UBIGINT USING COMPRESSION uncompressed
    );
    CREATE TABLE listings (
        path VARCHAR NOT NULL USING COMPRESSION uncompressed,
        stats BLOB NOT NULL USING COMPRESSION uncompressed,
        ids BLOB NOT NULL USING COMPRESSION uncompressed
    );
    CREATE TABLE remarks (path VARCHAR NOT NULL, reason VARCHAR NOT NULL, kind VARCHAR NOT NULL);

    CREATE VIEW nodes AS
    SELECT path, CASE kind WHEN 1 THEN 'file' WHEN 2 THEN 'directory' ELSE 'link' END AS kind,
           lower(hex(node_id)) AS node_id, lower(hex(content_id)) AS content_id, size, seq
    FROM (SELECT * FROM node_log
          QUALIFY row_number() OVER (PARTITION BY path ORDER BY seq DESC) = 1)
    WHERE kind <> 0;

    CREATE VIEW changes AS
    SELECT seq, path,
           CASE WHEN kind = 0 THEN 'removed' WHEN coalesce(was, 0) = 0 THEN 'added'
                ELSE 'modified' END AS change,
           CASE coalesce(nullif(kind, 0), was) WHEN 1 THEN 'file' WHEN 2 THEN 'directory'
                WHEN 3 THEN 'link' END AS kind,
           lower(hex(old_id)) AS old_content_id, lower(hex(content_id)) AS new_content_id
    FROM (SELECT *, lag(kind) OVER w AS was, lag(content_id) OVER w AS old_id
          FROM node_log WINDOW w AS (PARTITION BY path ORDER BY seq));

    CREATE VIEW roots AS
    SELECT seq, lower(hex(root)) AS root, lower(hex(content_id)) AS content_id,
           make_timestamp_ns(at_ns) AS at, cause, files, directories, links, bytes,
           added, modified, removed, renamed
    FROM root_log;
"""

_FRAMES: Final = """
    -- Like the nodes, heads are a log: the newest row of (path, type, agent) is the head.
    CREATE TABLE agent_log (
        seq UBIGINT NOT NULL, id VARCHAR NOT NULL, role VARCHAR NOT NULL, capabilities VARCHAR[]
    );
    CREATE TABLE bodies (sha256 BLOB NOT NULL, content VARCHAR);
    CREATE TABLE frame_log (
        seq UBIGINT NOT NULL, frame_id BLOB NOT NULL, path VARCHAR NOT NULL,
        type VARCHAR NOT NULL, agent VARCHAR NOT NULL, basis BLOB NOT NULL,
        content BLOB NOT NULL, node_id BLOB NOT NULL, inputs BLOB, meta VARCHAR NOT NULL,
        created_ns BIGINT NOT NULL
    );
    CREATE TABLE head_log (
        seq UBIGINT NOT NULL, path VARCHAR NOT NULL, type VARCHAR NOT NULL,
        agent VARCHAR NOT NULL, frame_id BLOB NOT NULL, basis BLOB NOT NULL,
        content BLOB NOT NULL, verified BLOB, config BLOB, action VARCHAR NOT NULL
    );
    CREATE TABLE input_lists (hash BLOB NOT NULL, base BLOB, list VARCHAR NOT NULL);
    CREATE TABLE memo (key BLOB NOT NULL, generation UINTEGER NOT NULL, content BLOB);

    CREATE VIEW frames AS
    SELECT seq, lower(hex(frame_id)) AS frame_id, path, type, agent,
           lower(hex(basis)) AS basis, lower(hex(content)) AS content_sha256,
           lower(hex(node_id)) AS node_id, make_timestamp_ns(created_ns) AS created_at, meta
    FROM frame_log;

    CREATE VIEW heads AS
    SELECT path, type, agent, lower(hex(frame_id)) AS frame_id, lower(hex(basis)) AS basis,
           action, seq
    FROM head_log QUALIFY row_number() OVER (PARTITION BY path, type, agent ORDER BY seq DESC) = 1;

    CREATE VIEW basis AS
    SELECT lower(hex(basis)) AS basis, list(lower(hex(frame_id)) ORDER BY seq) AS frame_ids
    FROM frame_log GROUP BY basis;
"""

_MODELS: Final = """
    -- Which results a model wrote: never dropped, always exported, with what they took.
    CREATE TABLE model_results (
        key BLOB NOT NULL, generation UINTEGER NOT NULL, content BLOB NOT NULL,
        meta VARCHAR NOT NULL
    );
"""

_SHARING: Final = """
    -- A queue: what was computed here for the team and has not been handed over yet.
    CREATE TABLE share_due (key BLOB NOT NULL, generation UINTEGER NOT NULL);
"""

MIGRATIONS: Final[tuple[str, ...]] = (_TREE, _FRAMES, _MODELS, _SHARING)
"""Step N brings a store from version N to N + 1."""
