"""A user on the demo's page: what they do and see in a real browser, with the whole gateway behind it."""

import contextlib
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Page, expect

from bot.demo.environment import open_demo
from bot.demo.page import VOICE_EXAMPLE, serve_page
from bot.sim.demo_model.showcase import RECEIPT_QUESTION, SHOWCASE_QUESTIONS, answer_showcase
from bot.sim.vllm.server import Timing
from tests.browser.conftest import Visit
from tests.browser.demo_page import PHONE, DemoPage, answers, ask, open_page
from tests.support.endpoint.server import ScriptedEndpoint, reply_with

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("quick_demos")]

LONG = "\n\n".join(
    f"Paragraph {number}: " + "the sea was calm and the light went round. " * 4 for number in range(24)
)


FILE_EXAMPLES = (RECEIPT_QUESTION, VOICE_EXAMPLE)


async def test_a_newcomer_sees_what_is_simulated_and_how_to_continue(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        await expect(page.locator("#notice-line")).to_have_text("Model and Telegram are simulated.")
        await page.get_by_text("Use real ones").click()
        await expect(page.get_by_text("canvasgram setup")).to_be_visible()
        await expect(page.get_by_text("--model-url")).to_be_visible()
        for question in (*SHOWCASE_QUESTIONS, *FILE_EXAMPLES):  # nothing is offered twice
            await expect(page.get_by_role("button", name=question, exact=True)).to_have_count(1)


async def test_a_message_is_answered_with_its_seconds_and_a_page_opened_later_shows_the_same(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        await ask(page, "hello")
        await expect(page.locator(".row.mine").last).to_contain_text("hello")
        await expect(answers(page)).to_contain_text("I am a simulated model")
        account = page.locator(".account")
        await expect(account).to_contain_text("in all")
        await expect(account).to_contain_text("first text")
        await expect(account).to_contain_text("~1 canvas (estimated)")
        assert await account.locator(".bar-of i").count() >= 4
        await ask(page, "/usage chart")
        image = answers(page).last.get_by_role("img", name="You, the last 30 days")
        await expect(image).to_have_js_property("naturalWidth", 1080)
        before = await page.locator(".row").all_inner_texts()
        async with visit(gateway.address) as later:
            await expect(later.locator(".row")).to_have_text(before, use_inner_text=True)


async def test_a_suggested_question_leads_through_a_tool(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        await page.get_by_role("button", name="Compare the time in Tokyo and New York").click()
        await expect(answers(page).last.locator("strong").first).to_have_text("Tokyo")
        await expect(page.locator(".account")).to_contain_text("tools (clock × 2)")
        await expect(page.locator(".account")).to_contain_text("2 model calls")


async def finish_canvas(gateway: DemoPage) -> None:
    """Let the model that is held finish its canvas, and hold the next."""
    await gateway.endpoint.wait_until(lambda: bool(gateway.endpoint.requests))
    [request] = gateway.endpoint.requests
    finished = request.canvases
    gateway.endpoint.release()
    await gateway.endpoint.wait_until(lambda: request.canvases > finished)
    gateway.endpoint.hold()


async def test_an_answer_grows_block_by_block_below_a_sign_of_life(visit: Visit):
    async with open_page(reply_with(LONG), Timing.canvas(0.5)) as gateway, visit(gateway.address) as page:
        gateway.endpoint.hold()
        await ask(page, "tell me a story")
        await expect(page.locator("#sign .words")).to_have_text("Thinking…")
        await expect(page.locator("#status")).to_have_text("is thinking…")
        text = answers(page).first.locator(".text")
        told = ""
        for _ in range(3):
            await finish_canvas(gateway)
            await expect(text).to_have_text(re.compile(f"^.{{{len(told) + 1},}}", re.DOTALL))
            await expect(page.locator("#sign .words")).not_to_be_visible()
            before, told = told, await text.inner_text()
            assert told.startswith(before)
        gateway.endpoint.release()
        await expect(page.locator(".account")).to_contain_text("further text")


async def test_a_long_answer_comes_whole_in_several_parts(visit: Visit):
    async with open_page(reply_with(LONG)) as gateway, visit(gateway.address) as page:
        await ask(page, "tell me a story")
        await expect(page.locator(".account")).to_be_visible()
        assert await answers(page).count() >= 2
        text = "\n".join(await answers(page).locator(".text").all_inner_texts())
        assert [f"Paragraph {number}: " in text for number in range(24)] == [True] * 24
        await expect(answers(page).last.locator(".account")).to_have_count(1)


async def test_stop_ends_an_answer_and_keeps_what_was_shown(visit: Visit):
    async with open_page(reply_with(LONG)) as gateway, visit(gateway.address) as page:
        gateway.endpoint.inject_fault("silent", after_canvases=1)
        await ask(page, "tell me a story")
        await page.locator(".keys").get_by_text("Stop").click()
        await expect(page.locator(".keys").get_by_text("Stop")).to_have_count(0)
        await expect(answers(page).first).to_contain_text("Paragraph 0")
        await expect(page.locator(".account")).to_contain_text("further text")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)


async def test_stop_ends_a_turn_that_has_shown_nothing_yet(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        gateway.endpoint.hold()
        await ask(page, "hello")
        await page.locator("#sign").get_by_role("button", name="Stop").click()
        await expect(page.locator("#sign")).to_be_hidden()
        await expect(answers(page).last).to_contain_text("topped")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)


async def test_a_message_that_waits_is_seen(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        gateway.endpoint.hold()
        await ask(page, "hello")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        await ask(page, "What time is it in Tokyo?")
        await expect(page.locator(".row.mine").last.locator(".reactions")).to_have_text("👀")
        gateway.endpoint.release()
        await expect(answers(page).last).to_contain_text("In Tokyo it is")


async def test_commands_are_offered_and_chosen_by_keyboard_and_by_tap(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        await gateway.demo.api.wait_until(
            lambda: any(
                command["command"] == "people" for command in gateway.demo.api.list_menu(gateway.demo.person)
            )
        )
        await page.get_by_label("Message", exact=True).press_sequentially("/us")
        await expect(page.locator("#menu li")).to_have_count(1)
        await page.keyboard.press("Enter")
        await expect(answers(page).last).to_contain_text("Nothing yet")
        await page.get_by_role("button", name="Commands").click()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Commands").click()
        await page.locator("#menu").get_by_text("/people").click()
        await expect(page.locator(".row.mine").last).to_contain_text("/people")
        await page.locator(".row:not(.mine) .link").get_by_text("/help").first.click()
        await expect(answers(page).last).to_contain_text("Just write to me")


async def test_a_message_can_be_replied_to(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        await ask(page, "hello")
        answer = answers(page).last
        await answer.locator(".bubble").hover()
        await answer.get_by_role("button", name="Reply").click()
        await ask(page, "Why?")
        await expect(page.locator(".row.mine").last.locator(".reply")).to_contain_text(
            "I am a simulated model"
        )
        await gateway.endpoint.wait_until(
            lambda: "message this replies to" in str(gateway.endpoint.requests[-1].body)
        )


async def test_what_is_new_is_answered_with_sources_that_can_be_opened(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        await page.locator(".keys").get_by_text("What is new in Grey Point?").click()
        await expect(answers(page).last).to_contain_text("From Monday a ferry")
        source = answers(page).last.get_by_role("link", name="1 grey-point-herald.example")
        address = await source.get_attribute("href")
        assert await answers(page).last.get_by_role("link", name="[1]").get_attribute("href") == address
        async with page.context.expect_page() as opening:
            await source.click()
        await expect((await opening.value).get_by_role("heading")).to_contain_text("a ferry twice a day")


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")
    await expect(page.locator(".row.mine").last).to_contain_text(text)


async def test_two_people_share_a_group_beside_their_private_chats(visit: Visit):
    async with open_page() as gateway, visit(gateway.address, width=360, height=740) as page:
        views = page.locator(".views")
        await expect(page.locator(".keys").first).to_be_visible()
        await views.get_by_role("button", name="Group").click()
        await expect(page.locator("#status")).to_have_text("Ann, Ben and Canvasgram")
        await write(page, "Shall we go on Saturday?")
        await write(page, "@canvasgram_bot Who am I?")
        await expect(answers(page).last).to_contain_text("You are Ann")
        await views.get_by_role("button", name="Ben").click()
        await expect(page.locator(".row.mine")).to_have_count(0)
        await expect(page.locator(".first .name").get_by_text("Ann")).to_be_visible()
        await answers(page).last.locator(".bubble").hover()
        await answers(page).last.get_by_role("button", name="Reply").click()
        await write(page, "Who am I?")
        await expect(answers(page).last).to_contain_text("You are Ben")
        assert len(gateway.endpoint.requests) == 2
        await views.get_by_role("button", name="Private").click()
        await expect(page.locator("#title")).to_have_text("Canvasgram")
        await expect(answers(page).or_(page.locator(".row:not(.mine)")).first).to_contain_text("Hello Ben.")
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.evaluate(width) == 0


MARKED = """\
Some **bold**, *italic*, ~~struck~~, `code` and [a link](https://example.org/x).

> A quote.

```python
print("<b>")
```
"""


async def test_formatting_is_shown_as_telegram_shows_it(visit: Visit):
    async with open_page(reply_with(MARKED)) as gateway, visit(gateway.address) as page:
        await ask(page, "show me https://example.org/x")
        message = answers(page).last.locator(".text")
        for tag, expected in {
            "strong": "bold",
            "em": "italic",
            "s": "struck",
            "blockquote": "A quote.",
        }.items():
            await expect(message.locator(tag)).to_have_text(expected)
        await expect(message.locator("code").first).to_have_text("code")
        await expect(message.locator(".pre-head span")).to_have_text("python")
        await expect(message.locator("pre code")).to_have_text('print("<b>")')
        link = message.locator("a")
        await expect(link).to_have_attribute("href", "https://example.org/x")
        await expect(link).to_have_attribute("rel", "noopener noreferrer")


async def test_a_message_that_is_deleted_vanishes(visit: Visit):
    async with open_page() as gateway, visit(gateway.address) as page:
        await ask(page, "hello")
        await expect(page.locator(".account")).to_be_visible()
        chat = gateway.demo.person.chat
        gateway.demo.api.app.world.delete(chat, chat.bot_messages[-1])
        await expect(page.locator(".account")).to_have_count(0)
        await expect(answers(page)).to_have_count(0)


HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script> & </div>'


async def test_markup_in_messages_is_text(visit: Visit):
    async with open_page(reply_with(f"You say: {HOSTILE}")) as gateway, visit(gateway.address) as page:
        await ask(page, HOSTILE)
        await expect(page.locator(".row.mine").last).to_contain_text(HOSTILE)
        await expect(answers(page).last).to_contain_text(HOSTILE)
        assert await page.locator("#messages img, #messages script").count() == 0


WIDE = (
    f"A word: {'x' * 300}\n\n```\n{'wide code ' * 40}\n```\n\n"
    f"| a | b |\n|---|---|\n| {'c' * 30} | {'d' * 40} |"
)


async def test_a_phone_needs_no_sideways_scrolling(visit: Visit):
    async with (
        open_page(reply_with(WIDE)) as gateway,
        visit(gateway.address, **PHONE, has_touch=True) as page,
    ):
        await ask(page, "y" * 300)
        await expect(page.locator(".account")).to_be_visible()
        elements = "[document.documentElement, document.querySelector('#chat')]"
        wide = f"{elements}.map(element => element.scrollWidth - element.clientWidth)"
        assert await page.evaluate(wide) == [0, 0]


async def test_a_photo_and_a_file_are_attached_and_shown(visit: Visit, tmp_path: Path):
    photo = tmp_path / "view.png"
    Image.new("RGB", (640, 480), "#336699").save(photo)
    notes = tmp_path / "notes.txt"
    notes.write_text("The meeting is on Tuesday.")
    async with open_page() as gateway, visit(gateway.address, **PHONE) as page:
        await expect(page.locator(".keys").first).to_be_visible()
        await page.set_input_files("#file", photo)
        await expect(page.locator("#attached")).to_contain_text("view.png")
        await ask(page, "What is this?")
        await expect(page.locator("#attached")).to_be_hidden()
        await expect(page.locator(".row.mine").last).to_contain_text("What is this?")
        image = page.locator(".row.mine img")
        await expect(image).to_have_js_property("naturalWidth", 640)
        await expect(answers(page).last).to_contain_text("Your picture has reached me")
        await page.set_input_files("#file", notes)
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.locator(".row.mine .file")).to_have_text("notes.txt")
        await expect(answers(page).last).to_contain_text("The meeting is on Tuesday.")


async def tap_example(page: Page, text: str) -> None:
    await page.get_by_role("button", name="All examples").click()
    await page.locator("#suggestions").get_by_text(text).click()


async def test_a_question_a_scanned_receipt_and_a_voice_message_are_a_tap_away(visit: Visit):
    async with open_page() as gateway, visit(gateway.address, **PHONE) as page:
        await expect(page.locator(".keys").first).to_be_visible()
        await tap_example(page, RECEIPT_QUESTION)
        await expect(page.locator(".row.mine .file")).to_have_text("receipt.pdf")
        await expect(answers(page).last).to_contain_text("21.60")
        [request] = gateway.endpoint.requests
        assert "image_url" in str(request.body["messages"][-1])
        await tap_example(page, VOICE_EXAMPLE)
        await expect(page.locator(".row.mine .voice")).to_be_visible()
        voice = page.locator(".row:not(.mine) .voice")
        await expect(voice).to_be_visible()
        played = await voice.evaluate("async (sound) => { await sound.play(); return !sound.paused; }")
        assert played
        await tap_example(page, "Suggest a day trip")
        await page.locator(".keys").get_by_text("The sea").click()
        await expect(answers(page).last).to_contain_text("The sea, then")
        await expect(page.locator(".keys").get_by_text("The sea")).to_have_count(0)


async def test_the_chat_follows_what_comes_until_somebody_goes_up(visit: Visit):
    grow = """chat => {
      const photo = document.createElement("li");
      photo.style.minHeight = "900px"; // as a picture grows that is loaded while the chat scrolls
      chat.querySelector("#messages").append(photo);
      chat.dispatchEvent(new Event("scroll"));
    }"""
    async with open_page(reply_with("Yes.")) as gateway, visit(gateway.address, **PHONE) as page:
        chat = page.locator("#chat")
        down = page.get_by_role("button", name="To the newest message")
        await expect(page.locator(".keys").first).to_be_visible()
        await chat.evaluate(grow)
        await expect(down).to_be_hidden()
        await ask(page, "hello")
        await expect(page.locator(".account")).to_be_in_viewport()
        await chat.evaluate("chat => { chat.scrollTop = 0; }")
        await expect(down).to_be_visible()
        await down.click()
        await expect(page.locator(".account")).to_be_in_viewport()


async def test_the_keyboard_replies_edits_and_gives_up(visit: Visit):
    async with open_page(
        reply_with("See https://example.org/path_(x), or (https://example.org/y).")
    ) as gateway:
        async with visit(gateway.address) as page:
            text = page.get_by_label("Message", exact=True)
            question = "the capitol, https://example.org/path_(x) and https://example.org/y"
            await ask(page, question)
            links = answers(page).last.locator(".text a")
            await expect(links).to_have_text(["https://example.org/path_(x)", "https://example.org/y"])
            await answers(page).last.get_by_role("button", name="Reply").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#quote")).to_be_visible()
            await page.keyboard.press("Escape")
            await expect(page.locator("#quote")).to_be_hidden()
            await text.press("ArrowUp")
            await expect(text).to_have_value(question)
            await text.fill("the capital")
            await page.keyboard.press("Enter")
            await expect(page.locator(".row.mine").last).to_contain_text("the capital")
            await text.fill("/")
            await page.keyboard.press("Enter")
            await expect(text).to_have_value(re.compile("^/[a-z]+$"))
            await page.keyboard.press("Escape")
            for label in ("Attach a photo or a file", "Commands"):
                await page.keyboard.press("Shift+Tab")
                focused = page.get_by_role("button", name=label)
                await expect(focused).to_be_focused()
                assert await focused.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"
        assert [message.text for message in gateway.demo.person.chat.messages if message.text == "/new"] == []


async def test_an_edit_that_fails_stays_an_edit_and_a_file_waits_for_it(visit: Visit, tmp_path: Path):
    notes = tmp_path / "notes.txt"
    notes.write_text("The meeting is on Tuesday.")
    async with (
        open_page(reply_with("Yes.")) as gateway,
        visit(gateway.address, forgiven=("409",)) as page,
    ):
        text = page.get_by_label("Message", exact=True)
        await ask(page, "the capitol")
        await expect(answers(page)).to_have_count(1)
        await text.press("ArrowUp")
        await page.set_input_files("#file", notes)
        await page.route("**/edit?**", lambda route: route.fulfill(status=409, body="Not now."), times=1)
        await text.fill("the capital")
        await text.press("Enter")
        await expect(page.locator("#toast")).to_have_text("Not now.")
        await expect(page.locator("#quote")).to_contain_text("Edit message")
        await expect(text).to_have_value("the capital")
        await text.press("Enter")
        await expect(page.locator(".row.mine .text")).to_have_text(["/start", "the capital"])
        await expect(page.locator("#quote")).to_be_hidden()
        await expect(page.locator("#attached")).to_contain_text("notes.txt")
        await text.press("Enter")
        await expect(page.locator(".row.mine .file")).to_have_text("notes.txt")
        await expect(page.locator("#attached")).to_be_hidden()


async def test_examples_that_were_used_come_last_and_all_can_be_reached(visit: Visit):
    async with open_page(reply_with("Yes.")) as gateway, visit(gateway.address, **PHONE) as page:
        await expect(page.locator(".keys").first).to_be_visible()
        shown = page.locator("#suggestions button:visible")
        await expect(shown).to_have_text([*SHOWCASE_QUESTIONS[3:], *FILE_EXAMPLES])
        await page.locator(".keys").get_by_text(SHOWCASE_QUESTIONS[0]).click()
        await expect(page.locator(".account")).to_be_visible()
        examples = [*SHOWCASE_QUESTIONS, *FILE_EXAMPLES]
        story, others = examples[0], examples[1:]
        await expect(shown).to_have_text([*others, story])
        last = page.locator("#suggestions button").last
        await expect(last).not_to_be_in_viewport()
        await page.get_by_role("button", name="All examples").click()
        await expect(last).to_be_in_viewport()
        await page.locator("#suggestions").get_by_text(others[0]).click()
        await expect(last).not_to_be_in_viewport()
        await page.locator("#suggestions button").first.focus()
        for _ in others:
            await page.keyboard.press("Tab")
        await expect(last).to_be_focused()
        await expect(last).to_be_in_viewport()


# The lowest contrast of a text to what is behind it, as WCAG computes it; colours may be translucent.
CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, below) => Object.fromEntries(
    ["r", "g", "b"].map((key) => [key, top[key] * top.a + below[key] * (1 - top.a)]).concat([["a", 1]]));
  const behind = (element) => {
    if (!element) return { r: 255, g: 255, b: 255, a: 1 };
    const own = parse(getComputedStyle(element).backgroundColor);
    return own.a === 1 ? own : over(own, behind(element.parentElement));
  };
  const light = ({ r, g, b }) => [r, g, b].map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, n) => sum + value * [0.2126, 0.7152, 0.0722][n], 0);
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const holdsText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!holdsText || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const below = behind(element);
    const lights = [light(over(parse(getComputedStyle(element).color), below)), light(below)];
    const ratio = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    if (ratio < 4.5) found.push(`${element.className || element.tagName} ${element.textContent}: ${ratio}`);
  }
  return found;
}"""


async def test_dark_is_dark_and_texts_have_the_contrast_that_wcag_aa_wants(visit: Visit):
    brightness = (
        "getComputedStyle(document.querySelector('.bar')).backgroundColor.match(/\\d+/g).map(Number)[0]"
    )
    async with open_page(reply_with(MARKED)) as gateway, visit(gateway.address) as page:
        await ask(page, "see https://example.org and /help")
        await expect(page.locator(".account")).to_be_visible()
        reply = answers(page).last.get_by_role("button", name="Reply")
        for scheme, least, most in (("light", 200, 255), ("dark", 0, 60)):
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            assert least <= await page.evaluate(brightness) <= most
            await reply.focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#quote")).to_be_visible()
            assert await page.evaluate(CONTRAST) == []
            await page.get_by_label("Message", exact=True).fill("/u")
            await page.get_by_text("Use real ones").click()
            assert await page.evaluate(CONTRAST) == []
            await page.get_by_text("Demo", exact=True).click()


async def test_the_page_says_when_the_demo_has_ended(visit: Visit):
    async with (
        open_demo(endpoint=ScriptedEndpoint(brain=answer_showcase)) as demo,
        contextlib.AsyncExitStack() as stack,
    ):
        address = await stack.enter_async_context(serve_page(demo))
        async with visit(address, forgiven=("net::ERR_", "failed: ")) as page:
            await ask(page, "hello")
            await expect(page.locator(".account")).to_be_visible()
            await stack.aclose()
            await expect(page.locator("#status")).to_contain_text("not running any more")
            await page.get_by_label("Message", exact=True).fill("anybody?")
            await page.keyboard.press("Enter")
            await expect(page.locator("#toast")).to_have_text("The demo has ended.")
            await expect(page.get_by_label("Message", exact=True)).to_have_value("anybody?")
