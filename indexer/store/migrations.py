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

_CONTEXT: Final = """
    -- A body's number stands for it in the postings; its length is how many terms it has. Bodies
    -- without a length are indexed when a question or an idle service needs them. The one index
    -- there is: a few bodies are read for every question, and a scan would go through the text of
    -- all of them.
    CREATE TABLE numbered (
        sha256 BLOB NOT NULL, content VARCHAR, number UINTEGER NOT NULL, length UINTEGER
    );
    INSERT INTO numbered SELECT sha256, content, rowid, NULL FROM bodies;
    DROP TABLE bodies;
    ALTER TABLE numbered RENAME TO bodies;
    CREATE INDEX body_numbers ON bodies (number);
    CREATE TABLE postings (
        term UINTEGER NOT NULL USING COMPRESSION uncompressed,
        bodies BLOB NOT NULL USING COMPRESSION uncompressed,
        counts BLOB NOT NULL USING COMPRESSION uncompressed
    );
    CREATE TABLE manifest_log (
        seq UBIGINT NOT NULL, id BLOB NOT NULL, at_ns BIGINT NOT NULL, document VARCHAR NOT NULL,
        root VARCHAR NOT NULL, tokens UBIGINT NOT NULL, items UBIGINT NOT NULL
    );

    CREATE VIEW manifests AS
    SELECT seq, lower(hex(id)) AS manifest_id, make_timestamp_ns(at_ns) AS recorded_at, root,
           tokens, items
    FROM manifest_log;
"""

_SESSIONS: Final = """
    -- Logs again: the newest row of (sid, id, born) is a version's present, an empty node_type
    -- marks one that no snapshot will show. A snapshot of cycle c is the range born <= c < gone.
    CREATE TABLE session_names (sid UINTEGER NOT NULL, name VARCHAR NOT NULL);
    CREATE TABLE session_heads (
        sid UINTEGER NOT NULL, seq UINTEGER NOT NULL, working BIGINT NOT NULL,
        creation_index BIGINT NOT NULL, last_ns BIGINT NOT NULL, released VARCHAR
    );
    CREATE TABLE session_requests (
        sid UINTEGER NOT NULL, seq UINTEGER NOT NULL, once VARCHAR NOT NULL
    );
    CREATE TABLE session_records (
        sid UINTEGER NOT NULL, seq UINTEGER NOT NULL, at_ns BIGINT NOT NULL, op VARCHAR NOT NULL,
        commit_hash VARCHAR, content_hash VARCHAR, content_type VARCHAR, node_id VARCHAR,
        reply_to VARCHAR, token_count UBIGINT NOT NULL, holds BOOLEAN NOT NULL,
        record VARCHAR NOT NULL
    );
    CREATE TABLE session_blobs (sha256 BLOB NOT NULL, content VARCHAR NOT NULL);
    CREATE TABLE session_versions (
        sid UINTEGER NOT NULL, seq UINTEGER NOT NULL, place UINTEGER NOT NULL,
        id VARCHAR NOT NULL, born BIGINT NOT NULL, gone BIGINT, parent VARCHAR,
        node_type VARCHAR NOT NULL, position BIGINT NOT NULL, created_at_ns BIGINT NOT NULL,
        creation_index BIGINT NOT NULL, expires BIGINT, removable BOOLEAN NOT NULL,
        holds BOOLEAN NOT NULL, refs VARCHAR, content_hash VARCHAR, node VARCHAR NOT NULL
    );

    CREATE VIEW sessions AS
    SELECT n.name, h.working - 1 AS cycle, count(*) AS records, count(r.commit_hash) AS commits,
           sum(r.token_count)::UBIGINT AS tokens, make_timestamp_ns(max(r.at_ns)) AS updated_at
    FROM session_names n JOIN session_records r ON r.sid = n.sid
    JOIN (SELECT sid, arg_max(working, seq) AS working FROM session_heads GROUP BY sid) h
      ON h.sid = n.sid
    GROUP BY n.sid, n.name, h.working;

    CREATE VIEW session_nodes AS
    SELECT n.name AS session, v.id, v.parent, v.node_type, v.born, v.gone, v.position AS "offset",
           v.expires, v.content_hash
    FROM (SELECT * FROM session_versions
          QUALIFY row_number() OVER (PARTITION BY sid, id, born ORDER BY seq DESC, place DESC) = 1)
    v JOIN session_names n ON n.sid = v.sid
    WHERE v.node_type <> '';
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

_PACKS: Final = """
    -- Results that came with a pack that nobody vouched for: used here, given to nobody.
    CREATE TABLE unvouched (key BLOB NOT NULL, generation UINTEGER NOT NULL);
"""

_LOSSES: Final = """
    -- Roots that were recorded once and that the database no longer had when it was opened.
    CREATE TABLE lost_roots (
        first UBIGINT NOT NULL, last UBIGINT NOT NULL, root BLOB NOT NULL, at_ns BIGINT NOT NULL
    );
"""

_SHORT_HASHES: Final = """
    -- The first four bytes of the hash: to find one body among a million, 4 MB are read and not 32.
    ALTER TABLE bodies ADD COLUMN short UINTEGER;
    UPDATE bodies SET short = ('0x' || hex(sha256)[1:8])::UINTEGER;
"""

_NOTES: Final = """
    -- What agents wrote accumulates: the newest row of a note is its present. One that is not live
    -- takes part in nothing but history; superseded_by names the note that took its place.
    CREATE TABLE note_log (
        seq UBIGINT NOT NULL, frame_id BLOB NOT NULL, action VARCHAR NOT NULL,
        live BOOLEAN NOT NULL, superseded_by BLOB
    );
    INSERT INTO note_log
    SELECT max(seq) AS last, frame_id, arg_max(action, seq), true, NULL FROM head_log
    WHERE NOT starts_with(agent, 'merkle:') GROUP BY frame_id ORDER BY last, min(rowid);
    INSERT INTO note_log SELECT seq, frame_id, 'written', false, NULL FROM frame_log
    WHERE NOT starts_with(agent, 'merkle:')
      AND frame_id NOT IN (SELECT frame_id FROM head_log) ORDER BY seq, rowid;
    DELETE FROM head_log WHERE NOT starts_with(agent, 'merkle:');

    CREATE VIEW notes AS
    SELECT f.path, f.type, f.agent, lower(hex(f.frame_id)) AS frame_id,
           lower(hex(f.basis)) AS basis, n.action, n.live,
           lower(hex(n.superseded_by)) AS superseded_by, n.seq
    FROM (SELECT *, row_number() OVER (PARTITION BY frame_id ORDER BY seq DESC, rowid DESC) AS age
          FROM note_log) n JOIN frame_log f ON f.frame_id = n.frame_id
    WHERE n.age = 1;

    CREATE OR REPLACE VIEW heads AS
    SELECT path, type, agent, lower(hex(frame_id)) AS frame_id, lower(hex(basis)) AS basis,
           action, seq
    FROM head_log QUALIFY row_number() OVER (PARTITION BY path, type, agent ORDER BY seq DESC) = 1
    UNION ALL
    SELECT path, type, agent, frame_id, basis, action, seq FROM notes WHERE live
    QUALIFY row_number() OVER (PARTITION BY path, type, agent ORDER BY seq DESC, frame_id) = 1;
"""

_SESSION_NAMES: Final = """
    -- Names are a log as well: the row of the newest record of a session says what it is called,
    -- and since when it is deleted, if it is.
    DROP VIEW session_nodes;
    DROP VIEW sessions;
    ALTER TABLE session_names ADD COLUMN seq UINTEGER DEFAULT 0;
    ALTER TABLE session_names ADD COLUMN deleted_ns BIGINT;

    CREATE VIEW sessions AS
    SELECT n.name, h.working - 1 AS cycle, count(*) AS records, count(r.commit_hash) AS commits,
           sum(r.token_count)::UBIGINT AS tokens, make_timestamp_ns(max(r.at_ns)) AS updated_at
    FROM (SELECT * FROM session_names
          QUALIFY row_number() OVER (PARTITION BY sid ORDER BY seq DESC) = 1) n
    JOIN session_records r ON r.sid = n.sid
    JOIN (SELECT sid, arg_max(working, seq) AS working FROM session_heads GROUP BY sid) h
      ON h.sid = n.sid
    WHERE n.deleted_ns IS NULL
    GROUP BY n.sid, n.name, h.working;

    CREATE VIEW session_nodes AS
    SELECT n.name AS session, v.id, v.parent, v.node_type, v.born, v.gone, v.position AS "offset",
           v.expires, v.content_hash
    FROM (SELECT * FROM session_versions
          QUALIFY row_number() OVER (PARTITION BY sid, id, born ORDER BY seq DESC, place DESC) = 1)
    v JOIN (SELECT * FROM session_names
            QUALIFY row_number() OVER (PARTITION BY sid ORDER BY seq DESC) = 1) n
      ON n.sid = v.sid
    WHERE v.node_type <> '' AND n.deleted_ns IS NULL;
"""

_CODE: Final = """
    -- What a content says of itself under the ending of a name, and by what that was found out:
    -- of several rows the one with the highest number counts.
    CREATE TABLE code_facts (
        number UINTEGER NOT NULL,
        content_id BLOB NOT NULL USING COMPRESSION uncompressed,
        ending VARCHAR NOT NULL, language VARCHAR NOT NULL, print UBIGINT NOT NULL,
        uses BLOB NOT NULL USING COMPRESSION uncompressed, names UINTEGER[] NOT NULL
    );
    CREATE TABLE code_symbols (
        number UINTEGER NOT NULL, place UINTEGER NOT NULL, kind VARCHAR NOT NULL,
        name VARCHAR NOT NULL, symbol VARCHAR NOT NULL, signature VARCHAR NOT NULL,
        doc VARCHAR NOT NULL, line UINTEGER NOT NULL, end_line UINTEGER NOT NULL,
        first_byte UINTEGER NOT NULL, last_byte UINTEGER NOT NULL,
        sha256 BLOB NOT NULL USING COMPRESSION uncompressed, parent INTEGER NOT NULL
    );

    -- The whole name where that decides the language, otherwise what follows its last dot.
    CREATE VIEW symbols AS
    WITH files AS (
        SELECT n.path, max_by(f.number, (length(f.ending), f.number)) AS number
        FROM (SELECT path, content_id, lower(regexp_extract(path, '[^/]*$')) AS name FROM nodes
              WHERE kind = 'file') n
        JOIN code_facts f ON lower(hex(f.content_id)) = n.content_id
          AND (f.ending = n.name OR f.ending = '*' || regexp_extract(n.name, '.(\\.[^.]*)$', 1))
        GROUP BY n.path)
    SELECT path, symbol, name, kind, signature, doc, line, end_line, first_byte, last_byte,
           lower(hex(sha256)) AS sha256
    FROM files JOIN code_symbols USING (number);
"""

_RANKING: Final = """
    -- What terms are worth, for files by the numbers of their facts (space 0), for what people and
    -- models wrote by the numbers of the bodies (space 1). A body that only repeats has length 0.
    DROP TABLE postings;
    CREATE TABLE postings (
        term UINTEGER NOT NULL USING COMPRESSION uncompressed,
        space UTINYINT NOT NULL,
        numbers BLOB NOT NULL USING COMPRESSION uncompressed,
        gains BLOB NOT NULL USING COMPRESSION uncompressed
    );
    UPDATE bodies SET length = CASE WHEN
        sha256 IN (SELECT content FROM frame_log WHERE agent IN
            ('merkle:outline', 'merkle:summarize', 'merkle:concatenate', 'merkle:filter'))
        AND sha256 NOT IN (SELECT content FROM frame_log WHERE agent NOT IN
            ('merkle:outline', 'merkle:summarize', 'merkle:concatenate', 'merkle:filter'))
        THEN 0 END;
"""

_USES: Final = """
    -- The references and imports of facts, packed, where a question has needed them, and which
    -- version of their reader found them.
    ALTER TABLE code_facts DROP COLUMN uses;
    ALTER TABLE code_facts DROP COLUMN names;
    CREATE TABLE code_uses (
        number UINTEGER NOT NULL, version UINTEGER NOT NULL,
        uses BLOB NOT NULL USING COMPRESSION uncompressed
    );
"""

_TOTALS: Final = """
    -- What lies below each folder, so that one can be known without looking into those below it.
    -- Without it the stat cache is not complete, and is written again.
    ALTER TABLE listings ADD COLUMN totals BLOB;
    DELETE FROM meta WHERE key = 'listed_seq';
"""

_HASHES_IN_ORDER: Final = """
    -- Short hashes of many bodies, in order: to find one among a million, a ninth of them is read.
    -- A body that is not in here has its short hash in its own row.
    CREATE TABLE body_hashes (short UINTEGER NOT NULL, number UINTEGER NOT NULL);
"""

_SPANS: Final = """
    -- What a question needs of all symbols of facts, packed: taken from their rows, the texts of
    -- nearly every row would be decoded for it. Null for facts from before, which have the rows.
    ALTER TABLE code_facts ADD COLUMN spans BLOB USING COMPRESSION uncompressed;
"""

MIGRATIONS: Final[tuple[str, ...]] = (
    _TREE, _FRAMES, _CONTEXT, _SESSIONS, _MODELS, _SHARING, _PACKS, _LOSSES, _SHORT_HASHES, _NOTES,
    _SESSION_NAMES, _CODE, _RANKING, _USES, _TOTALS, _HASHES_IN_ORDER, _SPANS,
)  # fmt: skip
"""Step N brings a store from version N to N + 1."""

TABLES: Final = (
    "agent_log", "bodies", "body_hashes", "code_facts", "code_symbols", "code_uses",
    "frame_log", "head_log", "input_lists", "listings", "lost_roots", "manifest_log", "memo",
    "meta", "model_results", "node_log", "note_log", "postings", "remarks", "root_log",
    "session_blobs", "session_heads", "session_names", "session_records", "session_requests",
    "session_versions", "share_due", "unvouched",
)  # fmt: skip
"""What a store of the present version has. Asked for a list, the library would parse all the views
of its own, which takes longer than to read a small index."""
