"""Methods of several experiments over class orders in one place: whom the joined section shows."""

from tests.report.benchmark.synthetic import SEEDS, stream, typed

from gddsg.report.benchmark import write_report
from gddsg.report.benchmark.all_orders import all_orders
from gddsg.report.benchmark.records import sorted_records
from gddsg.report.benchmark.summary import contests


def joined(records):
    streams = sorted_records(typed(records)).streams
    names = {one.experiment for one in streams}
    return all_orders({name: contests(one for one in streams if one.experiment == name) for name in names})


def both(learner, *orders, **more):
    return [stream(learner, order=order, **more) for order in orders]


def baselines(learner, *orders, **more):
    return both(learner, *orders, experiment="order-baselines", **more)


def shown(records):
    (contest,) = joined(records)
    return [entry.learner for entry in contest.entries]


BASE = [*both("gddsg", *SEEDS), *baselines("gddsg", *SEEDS, "hardest"), *baselines("apd", *SEEDS)]


def test_methods_of_all_experiments_stand_together_from_the_best_to_the_worst():
    assert shown([*BASE, *both("ranpac", *SEEDS)]) == ["gddsg", "ranpac", "apd"]


def test_a_learner_that_several_experiments_ran_is_shown_by_the_one_with_most_orders():
    (contest,) = joined(BASE)
    assert len(contest.reference.streams) == len(SEEDS) + 1


def test_of_a_method_the_best_row_is_shown():
    worse = baselines("ranpac on roots", *SEEDS)
    for one in worse:
        one["metrics"]["A_N"] -= 20
    assert shown([*BASE, *worse, *both("ranpac", *SEEDS)]) == ["gddsg", "ranpac", "apd"]


def test_of_a_method_that_also_has_rows_that_move_with_the_order_the_best_of_these_is_shown_too():
    moving = both("gddsg by arrival", *SEEDS)
    for place, one in enumerate(moving):
        one["metrics"]["A_N"] -= 1 + place
    assert shown([*BASE, *moving]) == ["gddsg", "gddsg by arrival", "apd"]


def test_one_order_counts_only_where_a_law_makes_it_stand_for_all():
    lucky, lawful = both("apd energy", SEEDS[0]), both("fecam", SEEDS[0], order_invariant=True)
    lucky[0]["metrics"]["A_N"] = 99.0
    assert shown([*BASE, *lucky, *lawful]) == ["gddsg", "fecam", "apd"]


def test_nothing_is_shown_of_those_that_break_the_rules():
    assert shown([*BASE, *both("icarl", *SEEDS)]) == ["gddsg", "apd"]


def test_a_setting_of_one_experiment_alone_is_not_shown_again():
    assert joined(baselines("apd", *SEEDS)) == []
    assert len(joined([*BASE, *baselines("apd", *SEEDS, dataset="cub200")])) == 1


def test_the_report_has_a_section_of_it_and_draws_single_orders_that_stand_for_all(tmp_path):
    lawful = both("fecam", SEEDS[0], order_invariant=True)
    text = write_report(typed([*BASE, *lawful]), tmp_path).markdown.read_text()
    section = text.split("## All methods, order by order")[1].split("\n## ")[0]
    assert "figures/all-orders-strip-1.png" in section
    assert [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][2:] == [
        "gddsg",
        "fecam",
        "apd",
    ]
    assert "All methods, order by order" not in write_report(typed(BASE[:3]), tmp_path / "one").markdown.read_text()
