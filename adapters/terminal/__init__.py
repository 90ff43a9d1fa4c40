"""The chat on this machine: whoever can open the gateway's socket talks to the owner's main session."""
