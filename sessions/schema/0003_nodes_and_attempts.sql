-- What a device offers as a node (JSON, empty: nothing), and wrong secrets, whose limits outlive a restart.

ALTER TABLE devices ADD COLUMN node TEXT NOT NULL DEFAULT '';

CREATE TABLE auth_attempts (
  address TEXT NOT NULL,
  kind TEXT NOT NULL,
  -- Times of the latest wrong secrets, microseconds UTC, as a JSON array.
  failures TEXT NOT NULL,
  locked_until INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (address, kind)
) WITHOUT ROWID;
CREATE INDEX auth_attempts_age ON auth_attempts(updated_at);
