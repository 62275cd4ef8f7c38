"""Experiments as files: a TOML file names factors and seeds, a run writes Parquet, a report draws the figures.

    distced experiment run FILE  →  one result file a cell  →  distced experiment report FOLDER

An experiment is of a *kind* (`kinds`), a module that is told what to measure by its own table of the file. A *cell* is
one combination of the factors and one seed: named, independent of all others, a pure function of its settings and seed.
Cells run in any order, in processes or on Ray, and those with a result are not run again.

A kind is written so:

    class DelaySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        subscribers: list[int]                        # keys of the table [delay] of the file
        rate: float = 1.0

    def cells(spec: DelaySpec, seeds: Sequence[int]) -> list[Cell]:
        return [Cell({"subscribers": count}, seed, spec.rate) for seed in seeds for count in spec.subscribers]

    def run(cell: Cell) -> list[Row]:                 # rows without the factors and the seed, which are added
        return [{"delay_ms": ...}]

    def figures(results: Results) -> list[Section]:   # `reporting.sections`: Figure, Table, Claim
        ...

    KIND = ExperimentKind("delay", "Delay of notifications", DelaySpec, cells, run, figures)

in a module `*_kind.py`, listed in `kinds.MODULES`. Two further functions are optional: `check(spec)` raises `SpecError`
for values that msgspec cannot refuse, with the path of the key, of which the file has the line (`spec_checks`);
`resolve(spec, folder)` returns the spec with the content of files that it names, so that a cell needs no file where it
runs. `figures` stands in a module `*_figures.py`, which is no part of the digest of the code: a figure drawn otherwise
runs nothing again. Settings of a cell (`Cell.settings`) hold what `run` needs, and not the lists of factors, so that a
further value in the file runs the new cells alone.

Rejected: workflow engines (Snakemake, DVC) and trackers (MLflow, Sacred), which know files and processes but neither
seeds nor pairs, and are more to install than to write.
"""
