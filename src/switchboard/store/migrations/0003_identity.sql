-- Who asks two control planes can tell by this whether they share one store. Written once, and never again.
CREATE TABLE identity (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL);
INSERT INTO identity VALUES (1, lower(hex(randomblob(16))));
