"""Work that waits: the inbox and how it is claimed, the outbox, jobs, and notices to admins."""
