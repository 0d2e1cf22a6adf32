"""The tools there are now, built in or registered by admins: who may use which, and their secrets."""
