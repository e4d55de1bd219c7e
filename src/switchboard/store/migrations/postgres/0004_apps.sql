-- compatible-with: 1
-- Published apps; one that is withdrawn stays, without its descriptor. `record` is JSON: owner, versions, withdrawal.
-- Their changes take the same revisions as those of agents, so that one notification tells of both.
CREATE TABLE apps (
  id text PRIMARY KEY,
  record bytea NOT NULL,
  descriptor bytea,
  revision bigint NOT NULL
);
CREATE INDEX apps_by_revision ON apps (revision);

-- The descriptor of every version that is kept.
CREATE TABLE editions (
  app_id text NOT NULL,
  version text NOT NULL,
  descriptor bytea NOT NULL,
  PRIMARY KEY (app_id, version)
);
