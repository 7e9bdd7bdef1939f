"""A call node's door: /api/v1. Bearer tokens only; a browser's session opens nothing here."""
