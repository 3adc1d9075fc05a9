"""The report put together: which tables and figures every experiment gets, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gddsg.report.benchmark import (
    bars,
    curves,
    group_figures,
    maps,
    measurements,
    order_figures,
    peers,
    published,
    tables,
)
from gddsg.report.benchmark.all_orders import JOINED, all_orders
from gddsg.report.benchmark.document import Block, Bullets, Document, Paragraph, Section, Table
from gddsg.report.benchmark.drawing import Style, report_style
from gddsg.report.benchmark.looks import learner_styles
from gddsg.report.benchmark.notes import notes_on
from gddsg.report.benchmark.prose import READING, facts, summary_sentences
from gddsg.report.benchmark.published import Published
from gddsg.report.benchmark.records import HONEST, ClassGraph, Embedding, Measured, Records, Stream
from gddsg.report.benchmark.summary import REFERENCE, Contest, Entry, contests

_PUBLISHED_TASKS = 10
_ALL_ORDERS = "all-orders"


@dataclass(frozen=True, eq=False)
class Experiment:
    """All that is known of one experiment."""

    name: str
    anchor: str
    contests: Sequence[Contest]
    records: Records
    styles: Mapping[str, Style]


Part = Callable[[Experiment], Sequence[Block | None]]


def document(records: Records, title: str) -> Document:
    """The whole report; what has no record is left out."""
    by_name = {name: contests(s for s in records.streams if s.experiment == name) for name in _names(records)}
    entries = [(e.name, e.method) for found in by_name.values() for contest in found for e in contest.entries]
    styles = learner_styles(entries)
    summary = Bullets(tuple(summary_sentences(records, by_name)))
    sections = [Section("summary", "Summary", (summary, *_notes(records)))]
    with report_style():
        for number, (name, found) in enumerate(_with_all_orders(by_name).items(), 1):
            # by name where it is ours, so that a new section renames no figure; others may be called anything
            anchor = name if name in _KNOWN else f"experiment-{number}"
            sections += _section(Experiment(name, anchor, found, records, styles))
    if records.failures:
        sections.append(Section("failures", "Runs that failed", (tables.failure_table(records.failures),)))
    sections.append(Section("reading", "How to read this report", (Bullets(READING),)))
    about = facts(records)
    if about:
        sections.append(Section("about", "What it was made of", (Bullets(tuple(about)),)))
    return Document(title, tuple(sections))


def _names(records: Records) -> list[str]:
    """Experiments that have anything to show, known ones first and in their order."""
    found = {stream.experiment for stream in records.streams}
    found |= {embedding.experiment for embedding in records.embeddings}
    found |= {graph.experiment for graph in records.graphs}
    found |= {measured.experiment for measured in records.measurements}
    return [*(name for name in _KNOWN if name in found), *sorted(found - set(_KNOWN))]


def _with_all_orders(experiments: Mapping[str, Sequence[Contest]]) -> dict[str, Sequence[Contest]]:
    """The experiments, and after those that it is made of a section that joins them."""
    joined, shown = all_orders(experiments), dict[str, Sequence[Contest]]()
    last = [name for name in experiments if name in JOINED][-1:]
    for name, found in experiments.items():
        shown[name] = found
        if joined and [name] == last:
            shown[_ALL_ORDERS] = joined
    return shown


def _section(experiment: Experiment) -> list[Section]:
    title, intro, part = _KNOWN.get(experiment.name, (experiment.name, "", _generic))
    found = [*part(experiment), *_maps(experiment), *_measurements(experiment)]
    blocks = [tables.noted(block) if isinstance(block, Table) else block for block in found if block is not None]
    if not blocks:
        return []
    head: list[Block] = [Paragraph(intro)] if intro else []
    return [Section(experiment.anchor, title, (*head, *_notes(experiment.records, experiment.name), *blocks))]


def _notes(records: Records, experiment: str = "") -> list[Paragraph]:
    """What to bear in mind of data sets, once in a section; of all of them unless an experiment is named."""
    found: list[Stream | Embedding | ClassGraph | Measured] = [*records.streams, *records.embeddings]
    found += [*records.graphs, *records.measurements]
    return [Paragraph(note) for note in notes_on(one.dataset for one in found if experiment in ("", one.experiment))]


def _maps(experiment: Experiment) -> Iterator[Block | None]:
    graphs = [graph for graph in experiment.records.graphs if graph.experiment == experiment.name]
    embeddings = [found for found in experiment.records.embeddings if found.experiment == experiment.name]
    yield maps.embedding_figure(experiment.anchor, embeddings)
    yield maps.graph_figure(experiment.anchor, graphs)


def _measurements(experiment: Experiment) -> Sequence[Block]:
    own = [measured for measured in experiment.records.measurements if measured.experiment == experiment.name]
    return measurements.measurement_tables(own)


def _generic(experiment: Experiment) -> list[Block | None]:
    drawn = curves.accuracy_curves(experiment.anchor, experiment.contests, experiment.styles)
    return [_overview(experiment), drawn, *_tables(experiment)]


def _overview(experiment: Experiment) -> Block | None:
    return tables.overview_table(experiment.contests, (tables.ACCURACY, tables.SEEDS, tables.FORGETTING))


def _tables(experiment: Experiment) -> list[Block | None]:
    return [*tables.result_tables(experiment.contests), tables.comparison_table(experiment.contests)]


def _main_table(experiment: Experiment) -> list[Block | None]:
    confusions = bars.confusion_bars(experiment.anchor, experiment.contests)
    printed = tables.published_table("Beside the paper's main table", _main_pairs(experiment.contests))
    return [*_with_peers(experiment), confusions, printed]


def _with_peers(experiment: Experiment) -> list[Block | None]:
    """The default against every peer right after the table that shows all learners, whichever that is."""
    overview, *others, comparison = _generic(experiment)
    against = peers.peer_table(experiment.contests)
    return [*others, against, comparison] if overview is None else [overview, against, *others, comparison]


def _honesty(experiment: Experiment) -> list[Block | None]:
    printed = tables.published_table("Beside the paper's main table", _main_pairs(experiment.contests))
    protocols = bars.protocol_bars(experiment.anchor, experiment.contests)
    return [protocols, printed, *_generic(experiment)]


def _trained(experiment: Experiment) -> list[Block | None]:
    found, name = experiment.contests, experiment.anchor
    overview, drawn, *others = _generic(experiment)
    return [
        overview,
        drawn,
        order_figures.order_strips(name, found, experiment.styles),
        bars.protocol_bars(name, found),
        *tables.disparity_tables(found),
        *others,
    ]


def _order_robustness(experiment: Experiment) -> list[Block | None]:
    found, name = experiment.contests, experiment.anchor
    return [
        bars.order_bars(name, found),
        order_figures.order_strips(name, found, experiment.styles),
        order_figures.order_fans(name, found, experiment.styles),
        order_figures.order_ranges(name, found, experiment.styles),
        *tables.disparity_tables(found),
        *_tables(experiment),
    ]


def _all_orders(experiment: Experiment) -> list[Block | None]:
    found = experiment.contests
    drawn = order_figures.order_strips(experiment.anchor, found, experiment.styles)
    return [drawn, *tables.worst_order_tables(found)]


def _order_baselines(experiment: Experiment) -> list[Block | None]:
    return [bars.protocol_bars(experiment.anchor, experiment.contests), *_order_robustness(experiment)]


def _task_similarity(experiment: Experiment) -> list[Block | None]:
    """Both orders are built, so there is nothing to average over."""
    return [
        bars.similarity_bars(experiment.anchor, experiment.contests),
        tables.similarity_table(experiment.contests, bars.SIMILAR),
        order_figures.order_fans(experiment.anchor, experiment.contests, experiment.styles),
    ]


def _ablation(experiment: Experiment) -> list[Block | None]:
    printed = tables.published_table("Beside the paper's ablation", _ablation_pairs(experiment.contests))
    return [*_generic(experiment), printed]


def _backbones(experiment: Experiment) -> list[Block | None]:
    printed = tables.published_table("Beside the paper's table of backbones", _backbone_pairs(experiment.contests))
    drawn = curves.backbone_curves(experiment.anchor, experiment.contests)
    return [_overview(experiment), drawn, *_tables(experiment), printed]


def _identification(experiment: Experiment) -> list[Block | None]:
    found = bars.identification_bars(experiment.anchor, experiment.contests)
    return [found, *_tables(experiment)]


def _group_count(experiment: Experiment) -> list[Block | None]:
    printed = tables.published_table("Beside the paper's group counts", _group_pairs(experiment.contests))
    growth = group_figures.group_growth(experiment.anchor, experiment.contests)
    return [*growth, *tables.result_tables(experiment.contests), printed]


def _distances(experiment: Experiment) -> list[Block | None]:
    graphs = [graph for graph in experiment.records.graphs if graph.experiment == experiment.name]
    return [measurements.graph_table(graphs)]


def _cost(experiment: Experiment) -> list[Block | None]:
    drawn = curves.cost_curves(experiment.anchor, experiment.contests, experiment.styles)
    return [*drawn, *tables.result_tables(experiment.contests)]


_KNOWN: dict[str, tuple[str, str, Part]] = {
    "main-table": (
        "Main results",
        "All learners on all data sets, over the same class orders and under the same rules.",
        _main_table,
    ),
    "everyday": (
        "Everyday run",
        "The methods of the main results in one class order, with narrow projections: minutes instead of hours.",
        _with_peers,
    ),
    "trained": (
        "Methods that train",
        "Methods that train prompts, adapters or the whole network, on images, beside closed-form learners on features "
        "of the same frozen network, a compact ViT.",
        _trained,
    ),
    "trained-half": (
        "Adaptation to a first task of half of the classes",
        "Adapters, and scale and shift, trained on fifty classes at once: an informative first task.",
        _generic,
    ),
    "honesty": (
        "What honest testing costs",
        "The same data judged honestly, by the protocol of the code released with the paper, and with upper bounds.",
        _honesty,
    ),
    "order-robustness": (
        "Robustness to class order",
        "The same classes in random orders, and in orders built to be as hard or as easy as possible.",
        _order_robustness,
    ),
    "order-baselines": (
        "Baselines of order robustness",
        "Methods with a network and a head for every task, told the task or not, beside closed-form learners.",
        _order_baselines,
    ),
    _ALL_ORDERS: (
        "All methods, order by order",
        "The three experiments on class orders joined: every method that keeps to the rules, by the row that has the "
        "highest A_N, and where some of its rows move with the order and others do not, the best of each. "
        "Methods that train prompts or adapters need images and another network, and have a section of their own.",
        _all_orders,
    ),
    "fixed-tasks": (
        "Robustness to the order of tasks",
        "The same tasks in random orders: what a task holds stays as it is, only its place changes.",
        _order_robustness,
    ),
    "task-similarity": (
        "Look-alikes within a task",
        "Class orders that put look-alikes into one task, against orders that spread them over tasks.",
        _task_similarity,
    ),
    "ablation": ("Ablation", "What remains when parts of the method are taken away or exchanged.", _ablation),
    "backbones": ("Backbones", "The same learner on features of different networks.", _backbones),
    "layers": ("Several layers", "Features of one layer of a network, and of several side by side.", _generic),
    "identification": (
        "Identification of groups",
        "Different ways to find the group of a test sample, which comes before its class.",
        _identification,
    ),
    "group-count": (
        "Number of groups",
        "How many class groups there are, as tasks arrive and for tasks of other length.",
        _group_count,
    ),
    "embedding": ("Distance features in the plane", "", _generic),
    "distances": ("Similarity graph by distance", "Which classes count as look-alikes.", _distances),
    "cost": ("Memory and time", "What a learner carries on, and how long it takes, as classes arrive.", _cost),
    "invariance": ("Invariance to class order", "The same model bit by bit, whatever came first.", _generic),
    "split": ("Classes that come back", "The samples of every class in several batches.", _generic),
    "trust": ("Calibration and rejection", "How far probabilities and “unknown” can be trusted.", _generic),
    "memory": ("Model file and memory", "What a model takes on the disk, and learning it in memory.", _generic),
}


# Our results beside the printed ones.


def _ten_tasks(found: Sequence[Contest]) -> list[tuple[Contest, Entry]]:
    """Entries of streams cut as the paper cut them."""
    return [(c, entry) for c in found if len(c.setting.sizes) == _PUBLISHED_TASKS for entry in c.entries]


def _main_pairs(found: Sequence[Contest]) -> Iterator[tuple[Published, tables.Ours]]:
    ours = _ten_tasks(found)
    for printed in published.main_results():
        for contest, entry in ours:
            if published.dataset_key(contest.setting.dataset) == printed.dataset and printed.method == _method(entry):
                yield printed, (contest, entry)


def _method(entry: Entry) -> str:
    """The paper's method an entry repeats: by the learner's own name, since variants of a method are others."""
    if entry.protocol == HONEST:
        return published.method_key(entry.learner)
    return REFERENCE if entry.protocol == "released" else ""


def _ablation_pairs(found: Sequence[Contest]) -> Iterator[tuple[Published, tables.Ours | None]]:
    ours = _ten_tasks(found)
    for printed in published.ablation():
        same = [(c, e) for c, e in ours if published.dataset_key(c.setting.dataset) == printed.dataset]
        matching = [(c, e) for c, e in same if published.ablation_key(e.learner) == printed.method]
        yield from ((printed, pair) for pair in matching)
        if same and not matching:
            yield printed, None


def _backbone_pairs(found: Sequence[Contest]) -> Iterator[tuple[Published, tables.Ours | None]]:
    ours = [(c, e) for c, e in _ten_tasks(found) if _method(e) == REFERENCE]
    for printed in published.backbones():
        same = [(c, e) for c, e in ours if published.dataset_key(c.setting.dataset) == printed.dataset]
        matching = [(c, e) for c, e in same if published.backbone_key(c.setting.backbone) == printed.backbone]
        yield from ((printed, pair) for pair in matching)
        if same and not matching:
            yield printed, None


def _group_pairs(found: Sequence[Contest]) -> Iterator[tuple[Published, tables.Ours]]:
    """Ours on any backbone beside the paper's on the same, or else on ViT-B/16."""
    printed_by = {(printed.dataset, printed.backbone): printed for printed in published.backbones()}
    for contest, entry in _ten_tasks(found):
        dataset, backbone = (
            published.dataset_key(contest.setting.dataset),
            published.backbone_key(contest.setting.backbone),
        )
        printed = printed_by.get((dataset, backbone)) or printed_by.get((dataset, published.BACKBONE))
        if printed is not None and entry.final_groups is not None:
            yield printed, (contest, entry)
