"""Pure decisions about a message: who may speak, which agent answers, in which session."""
