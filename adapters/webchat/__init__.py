"""The control plane's clients as a channel: answers to what they say reach them as events."""
