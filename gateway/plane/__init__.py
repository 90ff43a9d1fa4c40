"""The control plane: OpenClaw's protocol version 4 over WebSocket, and HTTP on the same port."""
