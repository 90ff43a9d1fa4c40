-- The first schema. Times are microseconds UTC; ids that people may name are UUIDv7 text.

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,
  conversation INTEGER NOT NULL DEFAULT 0,
  -- The queue: something waits iff head_seq > done_seq.
  head_seq INTEGER NOT NULL DEFAULT 0,
  done_seq INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  fence INTEGER NOT NULL DEFAULT 0,
  lease_until INTEGER NOT NULL DEFAULT 0,
  -- Times of the queue; see queueing.py.
  not_before INTEGER NOT NULL DEFAULT 0,
  behind INTEGER NOT NULL DEFAULT 0,
  burst_until INTEGER NOT NULL DEFAULT 0,
  burst_ends INTEGER NOT NULL DEFAULT 0,
  -- When the current conversation was begun or resumed.
  current_since INTEGER NOT NULL DEFAULT 0,
  settings TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  touched_at INTEGER NOT NULL
);
CREATE INDEX sessions_waiting ON sessions(id) WHERE head_seq > done_seq;

CREATE TABLE conversations (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  end_reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX conversations_session ON conversations(session);

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  identity BLOB NOT NULL UNIQUE,
  session INTEGER,
  seq INTEGER,
  state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  mode TEXT NOT NULL DEFAULT '',
  is_owner INTEGER NOT NULL DEFAULT 0,
  joins INTEGER NOT NULL DEFAULT 0,
  payload TEXT NOT NULL
);
CREATE UNIQUE INDEX events_order ON events(session, seq) WHERE seq IS NOT NULL;
CREATE INDEX events_context ON events(session, id) WHERE state = 'context';
CREATE INDEX events_overflow ON events(session, seq) WHERE state = 'dropped' AND reason = 'summarize';
CREATE INDEX events_commands ON events(id) WHERE state = 'command';

CREATE TABLE turns (
  id INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  session INTEGER NOT NULL,
  conversation INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  set_aside INTEGER NOT NULL DEFAULT 0,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  state TEXT NOT NULL,
  notice TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '',
  tokens_in INTEGER NOT NULL DEFAULT 0,
  tokens_out INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL,
  ended_at INTEGER
);
CREATE UNIQUE INDEX turns_running ON turns(session) WHERE state = 'running';

CREATE TABLE messages (
  conversation INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (conversation, seq)
) WITHOUT ROWID;

CREATE TABLE tool_calls (
  turn INTEGER NOT NULL,
  call_id TEXT NOT NULL,
  name TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  PRIMARY KEY (turn, call_id)
) WITHOUT ROWID;

CREATE TABLE deliveries (
  id INTEGER PRIMARY KEY,
  token TEXT NOT NULL,
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  chat TEXT NOT NULL,
  thread TEXT,
  turn INTEGER,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  due_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- A part is open (due or sending) iff it is not settled.
  settled_at INTEGER,
  platform_id TEXT,
  reason TEXT NOT NULL DEFAULT '',
  -- 1: the owner is to be told, 2: was told.
  trouble INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX deliveries_open ON deliveries(channel, account, chat, id) WHERE settled_at IS NULL;
CREATE INDEX deliveries_preview ON deliveries(turn) WHERE kind = 'preview';
CREATE INDEX deliveries_troubled ON deliveries(id) WHERE trouble = 1;

CREATE TABLE cursors (
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (channel, account)
) WITHOUT ROWID;

CREATE TABLE pairing_requests (
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  sender TEXT NOT NULL,
  name TEXT NOT NULL,
  code TEXT NOT NULL UNIQUE,
  address TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (channel, account, sender)
) WITHOUT ROWID;

CREATE TABLE allowed_senders (
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  sender TEXT NOT NULL,
  name TEXT NOT NULL,
  added_at INTEGER NOT NULL,
  PRIMARY KEY (channel, account, sender)
) WITHOUT ROWID;

CREATE TABLE owners (
  identity TEXT PRIMARY KEY,
  added_at INTEGER NOT NULL,
  reason TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE contacts (
  identity TEXT PRIMARY KEY,
  address TEXT NOT NULL,
  seen_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE cooldowns (
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  credential TEXT NOT NULL,
  until_at INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (provider, model, credential)
) WITHOUT ROWID;
