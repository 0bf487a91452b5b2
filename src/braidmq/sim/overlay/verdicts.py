"""Do the results say what the paper says, and what the prototype measured?"""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean

from braidmq.sim.overlay import printed
from braidmq.sim.overlay.churn import ChurnResult
from braidmq.sim.overlay.messages import MessageResult, MessageRow
from braidmq.sim.overlay.paths import SG_TBPS, SINGLE, Measured, PathRow
from braidmq.sim.report import Verdict

Cells = Mapping[tuple[int, str], PathRow]

_SIGMAS = 2.0
_DEVIATION_LEAST = 4.0  # points; a few runs may agree by chance
_CLOSE_TO_BROKER = 1.35


def by_cell(rows: Sequence[PathRow]) -> dict[tuple[int, str], PathRow]:
    return {(row.subscribers, row.method): row for row in rows}


def figures(rows: Sequence[PathRow], runs: Sequence[Sequence[Measured]]) -> list[Verdict]:
    cells = by_cell(rows)
    return [
        *single_hops(cells),
        *reductions(runs),
        *maxima(cells),
        *delays(cells),
        better_reading(cells),
        *prototype(cells),
    ]


def single_hops(cells: Cells) -> list[Verdict]:
    found = []
    for size, most in printed.SINGLE_HOP_MAX.items():
        for reading in "PF":
            of_size = [cells[count, f"{reading}, L={size}"] for count in printed.SUBSCRIBERS]
            single = [row.subscribers for row in of_size if row.hops_mean == 1 == row.hops_max]
            found.append(
                Verdict(
                    f"L={size}: a single hop at most, up to {most} subscribers and no more ({reading})",
                    f"up to {max(single, default=0)}",
                    max(single, default=0) == most,
                )
            )
    return found


def reduction(run: Sequence[Measured], count: int, method: str) -> float:
    hops = {one.method: one.hops_mean for one in run if one.subscribers == count}
    return 100 * (1 - hops[method] / hops[SG_TBPS])


def reductions(runs: Sequence[Sequence[Measured]]) -> list[Verdict]:
    """Percent shorter than SG-TBPS with L = 60: the paper's ranges with what chance allows its three runs."""
    found = []
    method = "P, L=60"
    for name, counts, (low, high) in (
        ("up to 80", [c for c in printed.SUBSCRIBERS if c <= printed.FEW_MAX], printed.REDUCTION_FEW),
        ("from 160 on", [c for c in printed.SUBSCRIBERS if c > printed.FEW_MAX], printed.REDUCTION_MANY),
    ):
        by_count = {count: [reduction(run, count, method) for run in runs] for count in counts}
        means = [fmean(values) for values in by_count.values()]
        chance = [
            _SIGMAS * max(deviation(values), _DEVIATION_LEAST) * sqrt(1 / printed.RUNS + 1 / len(values))
            for values in by_count.values()
        ]
        found.append(
            Verdict(
                f"L=60, {name}: {low:.0f} to {high:.0f} % shorter than SG-TBPS (P), as far as chance allows",
                ", ".join(f"{mean:.0f}±{width:.0f}" for mean, width in zip(means, chance, strict=True)),
                all(low - width <= mean <= high + width for mean, width in zip(means, chance, strict=True)),
            )
        )
    return found


def deviation(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))


def maxima(cells: Cells) -> list[Verdict]:
    def ratios(method: str) -> list[float]:
        rows = [cells[count, method] for count in printed.SUBSCRIBERS]
        return [row.hops_max / row.hops_mean for row in rows]

    plain, scribe = ratios(SG_TBPS), ratios("Scribe b=1, tree")
    return [
        Verdict(
            "SG-TBPS: the longest path is about twice the average",
            _listed(plain),
            all(1.6 <= ratio <= 2.5 for ratio in plain),
        ),
        Verdict(
            "Scribe: the longest path is 1.5 to 2.5 times the average (only with b=1, from the root)",
            _listed(scribe),
            sum(1.4 <= ratio <= 2.5 for ratio in scribe) >= len(scribe) - 1,
        ),
    ]


def delays(cells: Cells) -> list[Verdict]:
    few, many = printed.SUBSCRIBERS[0], printed.SUBSCRIBERS[-1]

    def model(count: int, method: str) -> float:
        return cells[count, method].model_ms

    others = (SG_TBPS, "Scribe b=4", "Scribe b=1")
    slower = all(model(few, method) > model(few, SINGLE) for method in others)
    faster = all(model(many, method) < model(many, SINGLE) for method in others)
    ratios = [model(count, "P, L=60") / model(count, SINGLE) for count in printed.SUBSCRIBERS if count <= 80]
    gaps = [model(count, SG_TBPS) - model(count, "P, L=60") for count in printed.SUBSCRIBERS if count >= 160]
    return [
        Verdict(
            "figure 7: SG-TBPS and Scribe are slower than one broker for few, faster for many",
            f"{few}: {_ms(cells, few, (SINGLE, *others))}; {many}: {_ms(cells, many, (SINGLE, *others))}",
            slower and faster,
        ),
        Verdict(
            "figure 7: the proposal is as fast as one broker for few subscribers (P, L=60, up to 80)",
            f"at most {max(ratios):.2f} times as long",
            max(ratios) <= _CLOSE_TO_BROKER,
        ),
        Verdict(
            "figure 7: for many it runs below SG-TBPS and parallel to it (P, L=60)",
            f"{min(gaps):.0f} to {max(gaps):.0f} ms below",
            min(gaps) > 0,
        ),
    ]


def better_reading(cells: Cells) -> Verdict:
    worse = [
        count
        for count in printed.SUBSCRIBERS
        for size in printed.TABLE_SIZES
        if cells[count, f"F, L={size}"].hops_mean > cells[count, f"P, L={size}"].hops_mean
    ]
    last = cells[printed.SUBSCRIBERS[-1], "F, L=60"].hops_mean
    return Verdict(
        "F is never longer than P, and at most 4.3 hops at 5,120 subscribers with L=60",
        f"longer at {len(worse)} points; {last:.2f} hops",
        not worse and last <= 4.3,
    )


def prototype(cells: Cells) -> list[Verdict]:
    """Within what chance allows the 24 runs of the prototype, or two percent."""
    found = []
    for method, theirs in printed.PROTOTYPE.items():
        apart = []
        for count, its in zip(printed.SUBSCRIBERS, theirs, strict=True):
            ours = cells[count, method]
            allowed = max(0.02 * its, 2.5 * ours.hops_deviation * sqrt(1 / 24 + 1 / ours.runs))
            if abs(ours.hops_mean - its) > allowed:
                apart.append(f"{count}: {ours.hops_mean:.2f} for {its:.2f}")
        found.append(
            Verdict(
                f"{method}: average path as an independent prototype found it",
                ", ".join(apart) or "at all ten points",
                len(apart) <= 1,
            )
        )
    return found


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


def _ms(cells: Cells, count: int, methods: Sequence[str]) -> str:
    return ", ".join(f"{method} {cells[count, method].model_ms:.0f}" for method in methods) + " ms"


def scale(rows: Sequence[PathRow], brokers: int) -> Verdict:
    """Path lengths of the Skip Graph methods depend on the topic's size alone."""
    cells = by_cell(rows)
    count = 10 * 4**4  # the largest that both networks have
    ours, theirs = cells[count, "F, L=60"].hops_mean, printed.PROTOTYPE["F, L=60"][8]
    return Verdict(
        f"{brokers:,} brokers: paths depend on the subscribers, not on the brokers (F, L=60)",
        f"{ours:.2f} hops at {count:,} subscribers, {theirs:.2f} among 10,000 brokers",
        abs(ours / theirs - 1) <= 0.06,
    )


def by_message(results: Sequence[MessageResult]) -> list[Verdict]:
    """Tables that were learned do what the closed form says of tables that know everything."""
    rows = [row for result in results for row in result.rows]
    lost = sum(row.missed + row.repeated for row in rows)
    few = [row for row in rows if row.subscribers <= printed.SINGLE_HOP_MAX[row.entries_max]]
    longer = [f"{row.subscribers}: {row.hops_mean:.2f}" for row in few if row.hops_mean > 1]
    apart = [
        f"L={row.entries_max}, {row.subscribers}: {row.hops_mean:.2f} for {expected_hops(row):.2f}"
        for row in rows
        if abs(row.hops_mean - expected_hops(row)) > 0.1 + 0.15 * (row.entries_max > 60)
    ]
    cost = [(result.seconds, result.memory_mb, result.messages_per_join) for result in results]
    return [
        Verdict("message by message: nobody misses a publication or gets it twice", f"{lost} did", not lost),
        Verdict(
            "message by message: a single hop up to 40 (L=60) and 80 (L=120) from the third publication on",
            ", ".join(longer) or "at all points",
            not longer,
        ),
        Verdict(
            "message by message: paths within 0.1 hops (L=60) and 0.25 (L=120) of the closed form",
            ", ".join(apart) or "at all points",
            len(apart) <= 2,
        ),
        Verdict(
            "message by message: at most 180 s and 600 MB a network",
            "; ".join(f"{s:.0f} s, {mb:.0f} MB, {each:.0f} messages a join" for s, mb, each in cost),
            all(seconds <= 180 and memory_mb <= 600 for seconds, memory_mb, _ in cost),
        ),
    ]


def expected_hops(row: MessageRow) -> float:
    place = printed.SUBSCRIBERS.index(row.subscribers)
    return printed.PROTOTYPE[f"F, L={row.entries_max}"][place]


def under_churn(results: Sequence[ChurnResult]) -> Verdict:
    expected = sum(result.expected for result in results)
    missed, repeated = (
        sum(values) for values in zip(*((r.missed, r.repeated) for r in results), strict=True)
    )
    wrong = [text for result in results for text in result.wrong]
    found = f"{expected:,} deliveries, {missed} missed, {repeated} repeated"
    return Verdict(
        "churn: every subscriber that is there gets every publication exactly once", found, not wrong
    )
