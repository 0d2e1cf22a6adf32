"""What somebody reads first: a greeting with three examples to tap."""

from bot.db.people.people import RoleOrBlocked
from bot.domain import Button, Part
from bot.telegram.actions import build_part

EXAMPLES = (
    "What time is it in Tokyo?",
    "What is 17.5 % of 2,480?",
    "Explain tides in three sentences.",
)


def build_greeting(name: str, role: RoleOrBlocked) -> Part:
    """The greeting of a person let in as `standing`."""
    lines = [f"Hello {name}. Write to me as you would to a person; /help lists my commands."]
    if role == "admin":
        lines.append(
            "You are an admin here: /invite makes a link for somebody else, /people shows who is in."
        )
    lines.append("To begin, tap an example:")
    rows = [(Button(question, f"ask:{number}"),) for number, question in enumerate(EXAMPLES)]
    return build_part("\n\n".join(lines), *rows)
