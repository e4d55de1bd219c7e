-- Every change takes the next revision; a removed agent stays as a row without registration, so that others learn of it.
CREATE TABLE revision (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value INTEGER NOT NULL);
INSERT INTO revision VALUES (1, 0);

CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  registration BLOB,
  state BLOB,
  registered_at REAL NOT NULL,
  revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX agents_by_revision ON agents (revision);

-- Heartbeats have a narrow table of their own: a batch of a thousand rewrites a few pages, not the registrations.
CREATE TABLE beats (id TEXT PRIMARY KEY, seen_at REAL NOT NULL) WITHOUT ROWID;
