-- Narrow on purpose: only this table changes after a row is made, so a change rewrites few pages and no texts.
CREATE TABLE executions (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  caller TEXT NOT NULL,
  idempotency_key TEXT,
  status TEXT NOT NULL,
  created_at REAL NOT NULL,
  handed_at REAL,
  acknowledged_at REAL,
  instance_id TEXT NOT NULL,
  ended_at REAL
);
CREATE UNIQUE INDEX executions_by_key ON executions (caller, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX executions_unfinished ON executions (created_at, number) WHERE ended_at IS NULL;
CREATE INDEX executions_by_end ON executions (ended_at, number) WHERE ended_at IS NOT NULL;

-- What was asked for, written once.
CREATE TABLE execution_requests (
  number INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  parent_id TEXT,
  agent_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  capability TEXT NOT NULL,
  context BLOB NOT NULL,
  webhook BLOB,
  input BLOB NOT NULL
);

-- What came of it, written once.
CREATE TABLE execution_ends (
  number INTEGER PRIMARY KEY,
  error TEXT,
  reason TEXT,
  http_status INTEGER,
  error_details BLOB,
  result BLOB
);

-- By the execution's id, not its number: an execution that lives in memory is talked about before it is here.
CREATE TABLE notes (
  number INTEGER PRIMARY KEY,
  execution_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  at REAL NOT NULL,
  content BLOB NOT NULL
);
CREATE INDEX notes_by_execution ON notes (execution_id, at, number);
CREATE INDEX notes_by_age ON notes (at, number);
