"""The long answer of the demo: a story of several canvases with headings, a list, a table and code."""

STORY = """\
# The Keeper of Grey Point

Nobody came to Grey Point by accident. The road ended two miles short of it, and what was left was a path \
along the cliff, a rope where the path was thin, and at the end of both a lighthouse that had not changed \
its mind in a hundred and forty years.

Marta Lind kept it. She had answered an advertisement that asked for *patience and a steady hand*, and she \
had brought both, together with eleven books, a cat without a name, and a radio that worked when the wind \
blew from the east.

## The first winter

The first winter taught her the rules, and she wrote them on the inside of the pantry door:

1. Trim the wick before you are tired, not after.
2. Count the boats that go out, and count them again when they come home.
3. Never argue with the fog. It has more time than you.

In December the counting mattered. Nine boats went out under a clean sky, and by noon the sky was gone. \
Marta climbed the ninety-one steps with the oil can in one hand and the logbook in the other. She lit the \
lamp four hours early and wound the clockwork that turned it, and then there was nothing to do but wait, \
which is most of the work.

One after the other they came: a yellow bow, a torn sail, a man waving a shirt because his lantern had \
drowned. At six she had eight. At seven she still had eight.

## The ninth boat

The ninth was the *Alma*, and on it was a boy of twelve who had gone along to see what his father did all \
day. Marta knew them both. She knew the engine too, by its cough, and she opened the gallery door and stood \
outside in the wind to listen for it.

What she did next is still told in the harbour. She stopped the clockwork. The beam, which had swept the \
sea every ten seconds since before she was born, stood still, and with her shoulder against the frame she \
turned it by hand, slowly, back and forth across the mouth of the bay, like somebody looking for a dropped \
coin.

The log of that night is short:

| Time | Wind | Boats home | Remark |
|---|---|---|---|
| 16:00 | NW 6 | 0 | lamp lit early |
| 18:00 | NW 8 | 8 | one missing |
| 19:40 | NW 9 | 8 | turning by hand |
| 21:15 | NW 7 | 9 | *Alma* at the pier |

At a quarter past nine the beam caught something that did not belong to the water. The *Alma* had lost her \
rudder and was drifting towards the Teeth. Her skipper saw the light stop on him, saw it move a little to \
the left, stop, and move to the left again, and he understood. He put out the oars, and he rowed where the \
light was pointing.

## What the boy kept

The boy grew up and went away to build machines. He sent Marta a small one, with a note that said the lamp \
could turn itself now, and stop by itself too, if a boat was missing. Its whole mind fitted on a card that \
she pinned beside the rules on the pantry door:

```python
def turn(boats_out, boats_home):
    if boats_home < boats_out:
        return "search the bay"
    return "sweep as always"
```

She read it twice, nodded, and went on counting by hand, because a rule is only as good as somebody who \
notices. But on the nights when all the boats were home she let the machine turn the lamp, and sat below \
with the cat and the ninth of her eleven books, and was, as far as anybody could see from the water, \
content.
"""
