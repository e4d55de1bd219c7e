-- compatible-with: 1
-- Every change of agents takes the next revision. Whoever takes it holds this row until the change is committed, so
-- revisions become visible in their order: who has seen one will never find a smaller one later.
CREATE TABLE revision (only_row int PRIMARY KEY CHECK (only_row = 1), value bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO revision VALUES (1, 0);

CREATE FUNCTION tell_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('switchboard_changes', NEW.value::text);
  RETURN NULL;
END $$;
CREATE TRIGGER tell AFTER UPDATE ON revision FOR EACH ROW EXECUTE FUNCTION tell_revision();

-- The database's clock, in seconds since 1970: the only one that is compared across instances.
CREATE FUNCTION moment() RETURNS double precision LANGUAGE sql VOLATILE AS
  $$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;

-- A removed agent stays for a while as a row without registration, so that every instance learns of it.
CREATE TABLE agents (
  id text PRIMARY KEY,
  registration bytea,
  registered_at double precision NOT NULL,
  revision bigint NOT NULL
);
CREATE INDEX agents_by_revision ON agents (revision);

-- What is known of an agent's life, apart from its registration: a change rewrites little.
CREATE TABLE life (id text PRIMARY KEY, state bytea, revision bigint NOT NULL) WITH (fillfactor = 70);
CREATE INDEX life_by_revision ON life (revision);

-- Signs of life, narrower still: thousands of them are written together, and no index changes with them.
CREATE TABLE beats (id text PRIMARY KEY, seen_at double precision NOT NULL, noted_at double precision NOT NULL)
  WITH (fillfactor = 50);

-- Who runs. One whose lease is over has ended, or sleeps, or is cut off: others take over what it had to do.
CREATE TABLE instances (
  id text PRIMARY KEY,
  started_at double precision NOT NULL,
  steady_since double precision NOT NULL,
  until double precision NOT NULL
);

-- What only one of them does at a time.
CREATE TABLE leases (name text PRIMARY KEY, holder text NOT NULL, until double precision NOT NULL);

-- Narrow on purpose: only this table changes after a row is made. `owner` is the instance that looks after it.
CREATE TABLE executions (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  caller text NOT NULL,
  idempotency_key text,
  status text NOT NULL,
  created_at double precision NOT NULL,
  handed_at double precision,
  acknowledged_at double precision,
  instance_id text NOT NULL,
  ended_at double precision,
  owner text NOT NULL
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX executions_by_key ON executions (caller, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX executions_unfinished ON executions (created_at, number) WHERE ended_at IS NULL;
CREATE INDEX executions_by_end ON executions (ended_at, number) WHERE ended_at IS NOT NULL;

-- What was asked for, written once.
CREATE TABLE execution_requests (
  number bigint PRIMARY KEY,
  run_id text NOT NULL,
  parent_id text,
  agent_id text NOT NULL,
  kind text NOT NULL,
  capability text NOT NULL,
  context bytea NOT NULL,
  webhook bytea,
  input bytea NOT NULL
);

-- What came of it, written once.
CREATE TABLE execution_ends (
  number bigint PRIMARY KEY,
  error text,
  reason text,
  http_status int,
  error_details bytea,
  result bytea
);

CREATE TABLE notes (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  execution_id text NOT NULL,
  kind text NOT NULL,
  at double precision NOT NULL,
  content bytea NOT NULL
);
CREATE INDEX notes_by_execution ON notes (execution_id, at, number);
CREATE INDEX notes_by_age ON notes (at, number);
