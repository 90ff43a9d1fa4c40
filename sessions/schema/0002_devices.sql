-- Devices of the control plane, what they ask for, and keys that make a repeated request harmless.

CREATE TABLE devices (
  id TEXT PRIMARY KEY,
  public_key TEXT NOT NULL,
  -- What it says about itself, for people to read.
  about TEXT NOT NULL,
  roles TEXT NOT NULL,
  scopes TEXT NOT NULL,
  approved_via TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  approved_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- A token is never stored: `digest` is its SHA-256, `generation` what it is derived from together with a server secret.
CREATE TABLE device_tokens (
  device TEXT NOT NULL,
  role TEXT NOT NULL,
  scopes TEXT NOT NULL,
  generation TEXT NOT NULL,
  digest TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  rotated_at INTEGER NOT NULL DEFAULT 0,
  revoked_at INTEGER NOT NULL DEFAULT 0,
  used_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (device, role)
) WITHOUT ROWID;

CREATE TABLE device_requests (
  id TEXT PRIMARY KEY,
  device TEXT NOT NULL,
  public_key TEXT NOT NULL,
  about TEXT NOT NULL,
  role TEXT NOT NULL,
  scopes TEXT NOT NULL,
  remote_ip TEXT NOT NULL,
  is_repair INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  -- Empty while it is pending, then what became of it, for those who wait.
  decision TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX device_requests_pending ON device_requests(device) WHERE decision = '';

CREATE TABLE setup_codes (
  digest TEXT PRIMARY KEY,
  role TEXT NOT NULL,
  scopes TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE request_keys (
  caller TEXT NOT NULL,
  method TEXT NOT NULL,
  key TEXT NOT NULL,
  response TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (caller, method, key)
) WITHOUT ROWID;
CREATE INDEX request_keys_age ON request_keys(created_at);
