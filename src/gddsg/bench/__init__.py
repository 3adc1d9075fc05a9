"""The benchmark: experiments in TOML files, runs on all cores, one record a run."""

from gddsg.bench.experiment import Experiment, LearnerSpec
from gddsg.bench.experiment_file import experiment_files, experiment_from, read_experiment
from gddsg.bench.jobs import Executor, Job
from gddsg.bench.methods import learner_class, learner_names
from gddsg.bench.record import Head, Record
from gddsg.bench.records import read_records
from gddsg.bench.runner import BenchReport, run_experiment

__all__ = [
    "BenchReport",
    "Executor",
    "Experiment",
    "Head",
    "Job",
    "LearnerSpec",
    "Record",
    "experiment_files",
    "experiment_from",
    "learner_class",
    "learner_names",
    "read_experiment",
    "read_records",
    "run_experiment",
]
