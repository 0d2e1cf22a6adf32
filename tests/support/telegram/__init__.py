"""The simulated Bot API of the tests, with its chats, people, limits and faults.

`ScriptedBotApi` (server.py) is the entrance. What a test does with it:

    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    async with api.serve_on_loopback() as url: ...
    ann, ben = api.person(7, "Ann"), api.person(8, "Ben")  # people, each with a private chat
    ann.send("hi"); ann.send_photo("look", content=png)  # the return value has `update_id`, `message_id`
    ann.edit(message, "text"); ann.tap(message, "Stop"); ann.delete(message); ann.block()

Groups. `thread=` says where somebody writes; without it, in private. An `update_id` of 0 means that the bot
does not receive the message, as in privacy mode.

    group = api.add_group(-1001, "Team", owner=ann, members=[ben], is_forum=True)  # or is_basic
    ben.send("/ask@canvasgram_sim_bot why?", thread=group)  # in a forum, its General topic
    topic = ann.create_topic("Plans", thread=group)
    ann.send("hello", thread=topic)
    group.change_member(api.bot, "kicked", by=ben)  # any status, of anybody: `ben.user`, `api.bot`
    group.change_member(api.bot, "restricted", can_send=False)  # muted
    group.close_topic(topic); group.reopen_topic(topic); group.delete_topic(topic)  # `group`: General
    group.change_title("Crew"); group.pin(message); group.post_service({"delete_chat_photo": True})
    supergroup = group.migrate(-1002)  # of a basic group
    group.add_anonymous_admin().send("hi", thread=group)
    group.link_channel(-1003, "News").send("a post", thread=group)
    other = api.add_other_bot(900, "Other", "other_bot")  # let in by change_member(other.user, "member")
    api.change_bot(can_read_all_group_messages=True)  # privacy mode off, for groups added from then on
    api.list_menu(ben, group.id)  # the commands that Ben is offered there
    mention = {"type": "text_mention", "offset": 0, "length": 6, "user": api.bot}
    ann.send_with_entities("Canvas, hi", [mention], thread=group)

Edits, reactions, files, guests.

    ann.edit(message, "text", thread=topic); ann.edit_caption(photo, "text"); ann.replace_photo(photo, png)
    ann.edit_metadata(message)  # a new update with the old text, as Telegram sends it
    ann.react(answer, "👍", thread=group); ann.react(answer, "")  # the bot hears of it only if it asks for it
    group.chat.allowed_reactions = frozenset("👍")  # frozenset() forbids all
    group.chat.has_bot_to_bot = True  # other bots are heard
    ann.chat.bot_messages[-1].raw["document"]["file_id"]; api.find_file(file_id)
    api.change_bot(supports_guest_queries=True)
    elsewhere = api.add_foreign_group(-1004, "Elsewhere", owner=ann)  # the bot was never in it
    query = ann.summon("@canvasgram_sim_bot why?", thread=elsewhere)  # must be answered in 15 s
    query.answer.text; ann.summon("and then?", thread=elsewhere, reply_to=query.answer)

What is there now: `api.chat(id)` with `messages`, `bot_messages`, `draft`, `chat_action`;
`api.calls_of(method, id)`; `await api.wait_until(...)`. Failures:
`api.inject_fault(BotApiFault.flood(7), "sendMessage", chat_id=1)`.
"""
