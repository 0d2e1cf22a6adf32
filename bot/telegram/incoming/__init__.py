"""Fetches, stores and parses updates (polling, envelope, update), and assembles the messages of a turn.

`user_message` is the entry of the assembly: it composes what `prompt_text`, `attachments` and
`attachment_loader` (with `downloads` and `file_places`) give it.
"""
