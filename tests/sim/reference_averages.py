"""Averages that an independent prototype found: queries a published topic, as (BF, BFP, prefix).

Modes 1 and 3 over 150 sets of subscriptions, the case of a match over 60 sets of 20 topics.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Averages:
    parameter: str
    value: float
    wildcard_only: tuple[float, float, float]
    no_match: tuple[float, float, float]
    match: tuple[float, float, float] | None
    printed_no_match: float


ONE = (1.0, 1.0, 1.0)

REFERENCE = (
    Averages("n_t", 1000, (1.01, 1.00, 1.03), (127, 118.2, 18.0), (98, 89, 29.6), 13.0),
    Averages("n_t", 2000, ONE, (127, 120.0, 18.0), (97.5, 90.5, 29.55), 13.0),
    Averages("n_t", 6000, ONE, (127, 120.0, 18.0), (98, 91, 29.6), 13.0),
    Averages("n_t", 10000, ONE, (127, 120.0, 18.0), (97.5, 90.5, 29.55), 13.0),
    Averages("n_lv", 2, ONE, (7, 4, 6), (6.0, 3.0, 7.8), 5),
    Averages("n_lv", 3, ONE, (15, 11, 9), (12.2, 8.2, 13.1), 7),
    Averages("n_lv", 4, ONE, (31, 26, 12), (24.4, 19.4, 18.4), 9),
    Averages("n_lv", 5, ONE, (63, 57, 15), (48, 42, 23.8), 11),
    Averages("n_lv", 7, ONE, (255, 247, 21), (195, 187, 35.2), 15),
    Averages("n_lv", 8, ONE, (511, 500.8, 24.0), (391, 381, 41.0), 17.0),
    Averages("n_lv", 9, (1.06, 1.00, 1.12), (1023, 961, 26.8), (772, 723, 46.4), 18.9),
    Averages("n_lv", 10, (1.25, 1.00, 1.51), (2047, 1570.2, 29.3), (1569, 1201, 51.7), 20.5),
    Averages("p_wc", 0.0, (127, 1, 3), (127, 1, 3), (127, 1, 18), 3),
    Averages("p_wc", 0.1, (1.01, 1.00, 1.01), (127, 119.3, 18.0), (122, 114, 32.4), 13.0),
    Averages("p_wc", 0.2, ONE, (127, 120, 18), (114, 107, 31.5), 13.0),
    Averages("p_wc", 0.4, ONE, (127, 120, 18), (104, 97, 30.2), 13.0),
    Averages("p_wc", 0.6, ONE, (127, 120, 18), (91, 84, 28.8), 13.0),
    Averages("p_wc", 0.8, ONE, (127, 120, 18), (81, 74, 27.5), 13.0),
    Averages("p_wc", 1.0, ONE, (127, 120, 18), (68, 61, 25.9), 13.0),
    Averages("l_wc", 1, (127, 63, 3), (127, 63, 3), None, 3),
    Averages("l_wc", 2, (127, 31, 3), (127, 31, 3), None, 3),
    Averages("l_wc", 3, (127, 15, 3), (127, 15, 3), None, 3),
    Averages("l_wc", 4, (127, 7, 3), (127, 7, 3), None, 3),
    Averages("l_wc", 5, (127, 3, 3), (127, 3, 3), None, 3),
)
