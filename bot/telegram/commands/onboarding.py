"""What happens at the door: strangers get a code or a refusal, and whoever has a link comes in."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot.db.people import people
from bot.db.people.people import Person, Standing
from bot.telegram.actions import Answer, Call, say
from bot.telegram.commands.greeting import greeting

USED_UP = "This link has been used, or it is too old. Ask for a new one."


async def knocked(call: Call) -> Answer:
    """A stranger wrote something: one line, and not again for a while. What they wrote is not kept."""
    if call.reach.access.mode != "pairing":
        told = call.reach.access.may_be_refused(call.person, call.now)
        line = f"This is a private bot. Its admins can let you in; your number is {call.person}."
        if told:
            return say(line, code=str(call.person))
        return Answer()
    heard = await people.knock(call.tx, call.person, call.name, now=call.now)
    if heard is None:
        return Answer()
    code, good_until = heard
    minutes = max(1, round((good_until - call.now) / 60))
    if code is None:
        return say(f"An admin has not let you in yet. The code you have is good for {minutes} more minutes.")
    return say(
        f"This is a private bot. Give an admin this code to be let in: {code} (good for an hour).", code=code
    )


async def by_link(call: Call) -> Answer:
    """Somebody opened `t.me/<bot>?start=CODE`; `call.words` is the code."""
    access = call.reach.access
    if call.standing == "admin":
        return welcome(call, "admin")
    if not access.may_try(call.person, call.now):
        if call.standing:
            return say("That were too many links. Try again in an hour.")
        return await knocked(call)
    before = await people.find(call.tx, call.person)
    role = await people.redeem(call.tx, call.words, call.person, call.name, now=call.now)
    if role is None:
        return say(USED_UP)
    after = await people.find(call.tx, call.person)
    if after != before:
        if before is None:
            was = None
        else:
            was = {"role": before.role, "name": before.name}
        await call.note("came in by a link", f"person {call.person}", was, {"role": role, "name": call.name})
    return await _come_in(call, role)


def welcome(call: Call, standing: Standing) -> Answer:
    """The greeting; an admin's menu is shown with it, for Telegram refuses it before somebody has written."""
    menu: tuple[Callable[[], Awaitable[None]], ...] = ()
    if standing == "admin":
        menu = (partial(call.reach.gestures.admin_menu, call.person),)
    return Answer(parts=(greeting(call.name, standing),), gestures=menu)


async def _come_in(call: Call, role: people.Role) -> Answer:
    reach = call.reach
    line = f"{call.name} ({call.person}) came in by a link, as {role}."
    told = await reach.notices.tell(call.tx, f"person {call.person}", line, now=call.now, besides=call.person)
    remember = partial(reach.access.remember, Person(call.person, call.name, role))
    return replace(welcome(call, role), then=(remember, *(partial(reach.wake_sender, lane) for lane in told)))
