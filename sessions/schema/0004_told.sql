-- What the person was told in place of an answer, for those who read the conversation later.
ALTER TABLE turns ADD COLUMN told TEXT NOT NULL DEFAULT '';
