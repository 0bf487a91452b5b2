"""The parts of `braidmq sim overlay`, by name; the program can list them without numpy."""

from typing import Final

FIGURES: Final = "figures"
SCALE: Final = "scale"
PICTURE: Final = "picture"
MESSAGES: Final = "messages"
CHURN: Final = "churn"

CHEAP_PARTS: Final = (FIGURES, SCALE, PICTURE)  # by the closed form: a minute
PARTS: Final = (*CHEAP_PARTS, MESSAGES, CHURN)
