-- compatible-with: 1
-- Who asks two control planes can tell by this whether they share one store. Written once, and never again.
CREATE TABLE identity (only_row int PRIMARY KEY CHECK (only_row = 1), id text NOT NULL);
INSERT INTO identity VALUES (1, replace(gen_random_uuid()::text, '-', ''));
