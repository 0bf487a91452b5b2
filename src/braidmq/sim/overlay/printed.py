"""What the paper prints, and the averages of an independent prototype over 24 runs."""

from typing import Final

SUBSCRIBERS: Final = (10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
TABLE_SIZES: Final = (60, 120)
RUNS: Final = 3
BROKERS: Final = 10_000

REDUCTION_FEW: Final = (63.0, 77.0)  # percent, L = 60, up to 80 subscribers
REDUCTION_MANY: Final = (22.0, 47.0)  # from 160 on
FEW_MAX: Final = 80
SINGLE_HOP_MAX: Final = {60: 40, 120: 80}  # 80 is printed; for L = 60 it says "few"
ENTRIES_OF_SG_TBPS: Final = 58

# Average path lengths at SUBSCRIBERS.
PROTOTYPE: Final = {
    "SG-TBPS": (2.50, 3.12, 4.01, 4.87, 5.70, 6.84, 7.44, 8.46, 9.05, 10.26),
    "P, L=60": (1.00, 1.00, 1.00, 1.75, 2.77, 3.82, 4.89, 5.86, 6.84, 7.89),
    "P, L=120": (1.00, 1.00, 1.00, 1.00, 1.55, 2.65, 3.78, 4.93, 5.84, 6.91),
    "F, L=60": (1.00, 1.00, 1.00, 1.38, 1.76, 2.16, 2.61, 3.07, 3.58, 3.99),
    "F, L=120": (1.00, 1.00, 1.00, 1.00, 1.30, 1.66, 1.95, 2.29, 2.62, 2.98),
    "Scribe b=4, tree": (3.30, 3.15, 3.20, 3.19, 3.18, 3.20, 3.25, 3.24, 3.16, 3.28),
    "Scribe b=1, tree": (5.76, 5.62, 5.68, 5.64, 5.63, 5.63, 5.70, 5.66, 5.60, 5.60),
}
PROTOTYPE_REDUCTIONS: Final = (60, 68, 75, 64, 51, 44, 34, 31, 24, 23)  # percent, P with L = 60
PROTOTYPE_MESSAGES: Final = {  # message by message, F, the third publication
    60: (1.00, 1.00, 1.00, 1.34, 1.77, 2.10, 2.53, 3.13, 3.63, 3.92),
    120: (1.00, 1.00, 1.00, 1.00, 1.31, 1.68, 2.20, 2.35, 2.71, 2.84),
}
