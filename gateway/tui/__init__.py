"""The full-screen chat: what is known (model), where it comes from (feed), how it looks (view), the terminal (app)."""
