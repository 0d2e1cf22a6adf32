"""A simulated Bot API with its chats, people and limits.

`BotApi` (server.py) is the entrance. What the demo or the bench does with it:

    api = BotApi(limits=FloodLimits.unlimited())
    async with api.serve_on_loopback() as url: ...
    ann, ben = api.person(7, "Ann"), api.person(8, "Ben")  # people, each with a private chat
    ann.send("hi"); ann.send_photo("look", content=png)  # the return value has `update_id`, `message_id`
    ann.edit(message, "text"); ann.tap(message, "Stop")
    group = api.add_group(-1001, "Team", owner=ann, members=[ben])
    ben.send("/ask@canvasgram_sim_bot why?", thread=group)

What is there now: `api.chat(id)` with `messages`, `bot_messages`, `draft`, `chat_action`;
`api.calls_of(method, id)`; `await api.wait_until(...)`. Tests extend it: tests/support/telegram.
"""
