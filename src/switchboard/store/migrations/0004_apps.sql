-- Published apps; one that is withdrawn stays, without its descriptor. `record` is JSON: owner, versions, withdrawal.
CREATE TABLE apps (
  id TEXT PRIMARY KEY,
  record BLOB NOT NULL,
  descriptor BLOB,
  revision INTEGER NOT NULL
);
CREATE INDEX apps_by_revision ON apps (revision);

-- The descriptor of every version that is kept.
CREATE TABLE editions (
  app_id TEXT NOT NULL,
  version TEXT NOT NULL,
  descriptor BLOB NOT NULL,
  PRIMARY KEY (app_id, version)
);
