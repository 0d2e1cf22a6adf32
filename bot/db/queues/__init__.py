"""Work that waits: inbox, outbox, jobs, requests for seats, and notices to admins."""
