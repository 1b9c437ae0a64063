//! Who hurts whom: disturbed over undisturbed for every probe and neighbour, one matrix per platform.
//!
//! Scatter measures can improve under load while the worst gets worse, so the tail is judged where a probe has a figure
//! of it: of the candidates (99.9 % bound or quantile, 99 %, longest) the first that most cells support, the same one on
//! every platform, so that matrices can be compared.

use model::isolation::{CellState, Harm, IsolationCell, IsolationMatrix, IsolationRow, JudgedFigure};
use model::journal::{Cell, Neighbour};
use model::results::{CellResult, MetricResult, RunResults};
use probes::ProbeKind;
use probes::params::ProbeSpec;
use units::Reason;
use units::layout::Layout;
use units::metric::{Better, Comparison, Difference, Estimate, Unit};
use units::scheduling::incomparable;

use super::fair_share::{fair_share, parties};

/// One matrix per platform that was measured beside a neighbour.
pub fn matrices(results: &RunResults) -> Vec<IsolationMatrix> {
    let neighbours = neighbours(results);
    let rows = rows(results);
    results
        .platforms
        .iter()
        .filter(|platform| {
            let beside = |cell: &CellResult| cell.cell.neighbour.is_some() && cell.done + cell.failed > 0;
            results.cells.iter().any(|cell| cell.cell.platform == platform.label && beside(cell))
        })
        .map(|platform| IsolationMatrix {
            platform: platform.label.clone(),
            rows: rows.iter().map(|row| row.on(results, &platform.label, &neighbours)).collect(),
            neighbours: neighbours.clone(),
        })
        .collect()
}

fn neighbours(results: &RunResults) -> Vec<Neighbour> {
    let mut seen = Vec::new();
    for neighbour in results.cells.iter().filter_map(|cell| cell.cell.neighbour) {
        if !seen.contains(&neighbour) {
            seen.push(neighbour);
        }
    }
    seen
}

/// A row before its platform is known.
struct Plan {
    probe: ProbeKind,
    layout: Option<Layout>,
    judged: JudgedFigure,
    main: Option<JudgedFigure>,
}

/// Every probe that was measured beside a neighbour, with the figures that are judged.
fn rows(results: &RunResults) -> Vec<Plan> {
    let mut rows: Vec<Plan> = Vec::new();
    for probe in ProbeKind::ALL {
        let spec = results.experiment.probes.specs().into_iter().find(|spec| spec.kind() == *probe);
        let is_wide = !matches!(spec, Some(ProbeSpec::Linpack(linpack)) if linpack.threads == 1);
        let of_probe = |cell: &&CellResult| {
            cell.cell.probe == *probe && cell.cell.neighbour.is_some() && cell.done + cell.failed > 0
        };
        // Where every neighbour broke, the figures are those of the undisturbed one.
        let alone = |cell: &&CellResult| cell.cell.probe == *probe && cell.cell.neighbour.is_none();
        for cell in results.cells.iter().filter(of_probe) {
            let layout = cell.cell.layout;
            if rows.iter().any(|row| row.probe == *probe && row.layout == layout) {
                continue;
            }
            let cells = results.cells.iter().filter(of_probe).chain(results.cells.iter().filter(alone));
            let cells: Vec<&CellResult> = cells.filter(|other| other.cell.layout == layout).collect();
            rows.extend(plan((*probe, is_wide), layout, &cells));
        }
    }
    rows
}

/// `is_wide`: it wants more than one CPU.
fn plan((probe, is_wide): (ProbeKind, bool), layout: Option<Layout>, cells: &[&CellResult]) -> Option<Plan> {
    let directed = |metric: &&MetricResult| metric.better != Better::Neither;
    let all = || cells.iter().flat_map(|cell| cell.metrics.iter().filter(directed));
    let main = all().find(|metric| metric.headline).or_else(|| all().next())?;
    let supported =
        |id: &str| all().filter(|metric| metric.id == id && times_worse(metric).is_some()).count();
    // The main figure, too, may speak of a tail.
    let tail = all()
        .filter_map(|metric| Some((tail_rank(metric)?, metric)))
        .filter(|(_, metric)| supported(&metric.id) > 0)
        .min_by_key(|(rank, metric)| (usize::MAX - supported(&metric.id), *rank))
        .map(|(_, metric)| metric);
    let figure = |metric| figure((probe, is_wide), metric);
    let main_figure = figure(main);
    let judged = tail.map(figure).filter(|tail| tail.id != main_figure.id);
    Some(match judged {
        Some(judged) => Plan { probe, layout, judged, main: Some(main_figure) },
        None => Plan { probe, layout, judged: main_figure, main: None },
    })
}

fn figure((probe, is_wide): (ProbeKind, bool), metric: &MetricResult) -> JudgedFigure {
    JudgedFigure {
        id: metric.id.clone(),
        title: metric.title.clone(),
        unit: metric.unit,
        better: metric.better,
        is_tail: tail_rank(metric).is_some(),
        is_shared: is_wide && is_shared(probe, metric),
    }
}

/// How good a figure of the tail this is, best first; none when it is not of the tail. Figures say so in their id.
fn tail_rank(metric: &MetricResult) -> Option<u8> {
    if metric.better == Better::Neither || !matches!(metric.unit, Unit::Nanoseconds | Unit::BytesPerSecond) {
        return None;
    }
    let id = metric.id.as_str();
    let has = |part: &str| id.contains(part);
    match () {
        () if has("bound_99_9_") || has("p99_9_") => Some(0),
        () if has("bound_99_ns") || has("p99_") => Some(1),
        () if has("max_") || has("longest_") || has("worst_") || id.ends_with("_max") => Some(2),
        () => None,
    }
}

/// Whether a figure is throughput of something that all want as a whole: every CPU, the memory, a disk, a cable. One
/// thread alone is none: beside a neighbour it can have a CPU of its own.
fn is_shared(probe: ProbeKind, metric: &MetricResult) -> bool {
    let whole_machine = matches!(probe, ProbeKind::Linpack | ProbeKind::Build) && metric.headline;
    metric.unit == Unit::BytesPerSecond || metric.id.contains("all_cpus") || whole_machine
}

impl Plan {
    fn on(&self, results: &RunResults, platform: &str, neighbours: &[Neighbour]) -> IsolationRow {
        let of = |neighbour: Option<Neighbour>| {
            let wanted =
                Cell { probe: self.probe, neighbour, platform: platform.to_owned(), layout: self.layout };
            results.cells.iter().find(|result| result.cell == wanted)
        };
        let quiet = of(None);
        IsolationRow {
            probe: self.probe,
            layout: self.layout,
            judged: self.judged.clone(),
            main: self.main.clone(),
            cells: neighbours
                .iter()
                .map(|neighbour| self.cell(results, of(Some(*neighbour)), quiet))
                .collect(),
        }
    }

    fn cell(
        &self,
        results: &RunResults,
        beside: Option<&CellResult>,
        quiet: Option<&CellResult>,
    ) -> IsolationCell {
        let nothing = |state: CellState, why: String| IsolationCell {
            state,
            judged: None,
            main: None,
            doses: beside.map(|cell| cell.doses.clone()).unwrap_or_default(),
            why,
        };
        let Some(beside) = beside else {
            return nothing(CellState::NotMeasured, "not part of the experiment".to_owned());
        };
        if beside.done == 0 && beside.failed > 0 {
            let failed = results.failures.iter().find(|failed| failed.cell == beside.cell);
            let why = failed.map(|failed| failed.failure.reason.clone());
            return nothing(CellState::Failed, why.unwrap_or_else(|| "every measurement broke".to_owned()));
        }
        if beside.done == 0 {
            return nothing(CellState::NotMeasured, "not measured yet".to_owned());
        }
        if let Some(why) = quiet.and_then(|quiet| incomparable(&beside.scheduled(), &quiet.scheduled())) {
            return nothing(CellState::NotComparable, why);
        }
        let judged = harm(beside, quiet, &self.judged);
        let main = self.main.as_ref().and_then(|main| harm(beside, quiet, main).ok());
        match judged {
            Ok(harm) => IsolationCell {
                state: CellState::Compared,
                judged: Some(harm),
                main,
                doses: beside.doses.clone(),
                why: String::new(),
            },
            Err(why) => IsolationCell { main, ..nothing(CellState::Unsupported, why.into()) },
        }
    }
}

fn times_worse(metric: &MetricResult) -> Option<Estimate> {
    harm_ratio(metric.against_undisturbed.as_ref()?.ratio.estimate()?, metric.better)
}

/// The ratio, turned so that more is worse.
fn harm_ratio(ratio: &Estimate, better: Better) -> Option<Estimate> {
    // Its inverse must be sound, too.
    let sound = ratio.is_sound() && [ratio.value, ratio.low, ratio.high].iter().all(|end| *end > 1e-19);
    sound.then(|| match better {
        Better::Higher => Estimate {
            value: 1.0 / ratio.value,
            low: 1.0 / ratio.high,
            high: 1.0 / ratio.low,
            confidence: ratio.confidence,
        },
        Better::Lower | Better::Neither => *ratio,
    })
}

fn sound_estimate(metric: &MetricResult) -> Option<Estimate> {
    metric.estimate.estimate().copied().filter(Estimate::is_sound)
}

fn harm(beside: &CellResult, quiet: Option<&CellResult>, figure: &JudgedFigure) -> Result<Harm, Reason> {
    let of = |cell: &CellResult| cell.metrics.iter().find(|metric| metric.id == figure.id).cloned();
    let metric = of(beside).ok_or("this figure was not yielded")?;
    let comparison: &Comparison = metric.against_undisturbed.as_ref().ok_or("nothing to compare with")?;
    let times_worse = times_worse(&metric);
    // Who has less than the fair share is called so, like a difference.
    let of_family = comparison.of_family.and_then(|ratio| harm_ratio(&ratio, metric.better)).or(times_worse);
    let told = matches!(comparison.difference, Difference::Better | Difference::Worse | Difference::NotFound);
    if times_worse.is_none() && !told {
        return Err(match &comparison.ratio {
            units::metric::Answer::Unsupported(reason) => reason.clone().into(),
            units::metric::Answer::Estimate(_) => "the ratio is not a finite number".into(),
        });
    }
    let shared = figure.is_shared.then(|| parties(&beside.cell));
    Ok(Harm {
        times_worse,
        difference: comparison.difference,
        undisturbed: quiet.and_then(of).and_then(|metric| sound_estimate(&metric)),
        disturbed: sound_estimate(&metric),
        // Times worse is the inverse of the part that is left.
        of_fair_share: shared.zip(of_family).map(|(n, worse)| fair_share(&worse, Better::Lower, n)),
        parties: shared,
    })
}

#[cfg(test)]
mod tests {
    use super::super::made_run::{CPU, DISK, broken, cell, measured, run};
    use super::*;
    use model::journal::FailureKind;
    use units::scheduling::Scheduling;

    fn on_vm(run: &RunResults) -> IsolationMatrix {
        matrices(run).into_iter().find(|matrix| matrix.platform == "vm").unwrap()
    }

    #[test]
    fn more_is_worse_whatever_the_good_direction_is() {
        let mut run = run();
        for (probe, id, quiet, loud) in [
            (ProbeKind::Gap, "bound_95_ns", 100.0, 300.0),
            (ProbeKind::MemBandwidth, "read_bytes_per_s", 300.0, 100.0),
        ] {
            measured(&mut run, &cell("vm", probe, None), id, quiet);
            measured(&mut run, &cell("vm", probe, Some(CPU)), id, loud);
        }
        let matrix = on_vm(&run);
        assert_eq!(matrix.neighbours, [CPU]);
        for row in &matrix.rows {
            let harm = row.cells[0].judged.as_ref().unwrap();
            let times = harm.times_worse.unwrap();
            assert!((times.value - 3.0).abs() < 1e-9 && times.low <= times.high, "{times}");
            assert_eq!(harm.difference, Difference::Worse);
        }
        // A third of the throughput is two thirds of the fair half; a time of one thread has no fair share.
        let share = |row: usize| matrix.rows[row].cells[0].judged.as_ref().unwrap().of_fair_share;
        assert!(share(0).is_none());
        assert!((share(1).unwrap().value - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_tail_is_judged_where_there_is_one_and_the_typical_is_kept_beside_it() {
        let mut run = run();
        let (quiet, loud) = (cell("vm", ProbeKind::Gap, None), cell("vm", ProbeKind::Gap, Some(CPU)));
        for (id, undisturbed, disturbed) in
            [("bound_95_ns", 10.0, 9.0), ("max_gap_ns", 1e3, 5e4), ("bound_99_9_ns", 100.0, 700.0)]
        {
            measured(&mut run, &quiet, id, undisturbed);
            measured(&mut run, &loud, id, disturbed);
        }
        let matrix = on_vm(&run);
        let row = &matrix.rows[0];
        assert_eq!((row.judged.id.as_str(), row.judged.is_tail), ("bound_99_9_ns", true));
        assert_eq!(row.main.as_ref().unwrap().id, "bound_95_ns");
        let of = |harm: &Option<Harm>| harm.as_ref().unwrap().times_worse.unwrap().value;
        assert!((of(&row.cells[0].judged) - 7.0).abs() < 1e-9);
        assert!((of(&row.cells[0].main) - 0.9).abs() < 1e-9, "the typical got better meanwhile");
    }

    #[test]
    fn a_tail_that_few_cells_support_gives_way_to_one_that_more_do() {
        let mut run = run();
        measured(&mut run, &cell("vm", ProbeKind::Gap, None), "max_gap_ns", 1e3);
        measured(&mut run, &cell("vm", ProbeKind::Gap, None), "bound_99_9_ns", 1e2);
        for neighbour in [CPU, DISK] {
            measured(&mut run, &cell("vm", ProbeKind::Gap, Some(neighbour)), "max_gap_ns", 2e3);
        }
        measured(&mut run, &cell("vm", ProbeKind::Gap, Some(CPU)), "bound_99_9_ns", 1e3);
        assert_eq!(on_vm(&run).rows[0].judged.id, "max_gap_ns");
    }

    #[test]
    fn wake_ups_of_different_priorities_have_no_ratio_but_a_reason() {
        let mut run = run();
        let (quiet, loud) = (cell("vm", ProbeKind::Wakeup, None), cell("vm", ProbeKind::Wakeup, Some(CPU)));
        measured(&mut run, &quiet, "response_p99_ns", 100.0);
        measured(&mut run, &loud, "response_p99_ns", 900.0);
        run.cells[0].scheduling = vec![Scheduling::Fifo { priority: 80 }];
        assert_eq!(on_vm(&run).rows[0].cells[0].state, CellState::Compared, "of one nothing is known");
        run.cells[1].scheduling = vec![Scheduling::Normal];
        let cell = &on_vm(&run).rows[0].cells[0];
        assert_eq!((cell.state, &cell.judged), (CellState::NotComparable, &None));
        assert_eq!(cell.why, "not comparable: normal priority against FIFO 80");
    }

    #[test]
    fn what_broke_and_what_was_not_measured_is_told_apart() {
        let mut run = run();
        measured(&mut run, &cell("vm", ProbeKind::Fwq, None), "quantum_ns", 100.0);
        measured(&mut run, &cell("vm", ProbeKind::Fwq, Some(CPU)), "quantum_ns", 100.0);
        measured(&mut run, &cell("vm", ProbeKind::Fork, None), "fork_ns", 100.0);
        measured(&mut run, &cell("vm", ProbeKind::Fork, Some(CPU)), "fork_ns", 100.0);
        broken(&mut run, &cell("vm", ProbeKind::Fwq, Some(DISK)), FailureKind::Died);
        let matrix = on_vm(&run);
        let states = |row: usize| matrix.rows[row].cells.iter().map(|cell| cell.state).collect::<Vec<_>>();
        assert_eq!(states(0), [CellState::Compared, CellState::Failed]);
        assert_eq!(states(1), [CellState::Compared, CellState::NotMeasured]);
        assert_eq!(matrix.rows[0].cells[1].why, "the reason");
        let same = matrix.rows[0].cells[0].judged.as_ref().unwrap();
        assert_eq!(same.difference, Difference::NotFound);
        assert!(matrices(&run).iter().all(|matrix| matrix.platform != "native"), "it had no neighbour");
    }
}
