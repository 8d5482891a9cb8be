"""Bronze: raw changes exactly as they arrived, append-only."""
