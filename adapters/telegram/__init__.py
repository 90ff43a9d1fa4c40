"""Telegram bots: their updates by long polling or webhook, and every message we send as them.

Owns the translation between the Bot API (https://core.telegram.org/bots/api) and Tidegate's events and parts.
"""
