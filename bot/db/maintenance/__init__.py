"""Care for the whole database: backups and integrity checks, restore, and deletion of texts."""
