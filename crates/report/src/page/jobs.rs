//! Pictures of the LU probe and the compile job: operations per second, and where the time of a job went.

use maud::{Markup, html};
use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{BuildDetail, Detail, LinpackDetail};
use units::metric::Unit;
use units::{Nanos, three_digits};

use super::super::chart::bars::{BarRow, Item};
use super::super::chart::palette::Ink;
use super::super::chart::svg::Picture;
use super::super::figures::{details, value_text};
use super::parts::{bars, behind, figure, plain_table};

/// One platform's outcome.
struct Seen<'a, D> {
    ink: usize,
    label: String,
    detail: &'a D,
}

fn seen<'a, D>(
    results: &'a RunResults,
    probe: ProbeKind,
    pick: impl Fn(&'a Detail) -> Option<&'a D>,
) -> Vec<Seen<'a, D>> {
    let all = details(results, probe).into_iter();
    all.filter_map(|(ink, label, detail)| Some(Seen { ink, label, detail: pick(detail)? })).collect()
}

fn legend<D>(all: &[Seen<'_, D>]) -> Vec<(Ink, String)> {
    all.iter().map(|seen| (Ink(seen.ink), seen.label.clone())).collect()
}

pub(super) fn linpack(results: &RunResults) -> Markup {
    let all = seen(results, ProbeKind::Linpack, |detail| match detail {
        Detail::Linpack(detail) => Some(detail),
        _ => None,
    });
    html! {
        (figure("Floating-point operations per second of an LU solve", "Bars are the median of the solutions of one \
            measurement; the line on a bar spans from the slowest to the fastest.", &legend(&all), &rates(&all)))
        (behind("Table: solutions", &solutions(&all)))
    }
}

/// Rates of the slowest, the middle and the fastest solution; none without any that took a time.
fn rates_of(detail: &LinpackDetail) -> Option<[f64; 3]> {
    let operations = LinpackDetail::operations(detail.n);
    let mut rates: Vec<f64> = detail
        .elapsed_ns
        .iter()
        .filter(|time| time.get() > 0)
        .map(|time| operations / time.as_secs_f64())
        .collect();
    rates.sort_by(f64::total_cmp);
    Some([*rates.first()?, *rates.get(rates.len() / 2)?, *rates.last()?])
}

fn rates(all: &[Seen<'_, LinpackDetail>]) -> Picture {
    let row = |seen: &Seen<'_, LinpackDetail>| {
        let [slowest, value, fastest] = rates_of(seen.detail)?;
        let title = match seen.detail.threads {
            1 => format!("{} equations, 1 thread", seen.detail.n),
            threads => format!("{} equations, {threads} threads", seen.detail.n),
        };
        let item = Item { ink: Ink(seen.ink), value, interval: (slowest, fastest) };
        Some(BarRow { title, items: vec![item] })
    };
    let caption = ("Operations per second of an LU solve", "operations per second");
    bars(merged(all.iter().filter_map(row).collect()), Unit::PerSecond, caption)
}

/// Rows of the same title become one.
fn merged(rows: Vec<BarRow>) -> Vec<BarRow> {
    let mut merged: Vec<BarRow> = Vec::new();
    for row in rows {
        match merged.iter_mut().find(|other| other.title == row.title) {
            Some(other) => other.items.extend(row.items),
            None => merged.push(row),
        }
    }
    merged
}

fn solutions(all: &[Seen<'_, LinpackDetail>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|seen| {
            let mut row =
                vec![seen.label.clone(), seen.detail.n.to_string(), seen.detail.threads.to_string()];
            match rates_of(seen.detail) {
                Some([slowest, middle, fastest]) => {
                    row.extend([slowest, middle, fastest].map(|rate| value_text(Unit::PerSecond, rate)));
                }
                None => row.extend(["n/a: no solution", "n/a", "n/a"].map(str::to_owned)),
            }
            row.push(three_digits(seen.detail.residual));
            row
        })
        .collect();
    plain_table(
        &["Platform", "Equations", "Threads", "Slowest", "Median", "Fastest", "Scaled residual (< 16)"],
        &rows,
    )
}

pub(super) fn build(results: &RunResults) -> Markup {
    let all = seen(results, ProbeKind::Build, |detail| match detail {
        Detail::Build(detail) => Some(detail),
        _ => None,
    });
    html! {
        (figure("Where the time of the compile job went", "One job per platform: wall time, of which linking, and the CPU \
            time of all compilers. CPU time below wall time times compilers at once was spent waiting.",
            &legend(&all), &times(&all)))
        (figure("Time to compile one file", "Bars are the median over the files of one job; the line on a bar spans the \
            middle half of them.", &legend(&all), &per_file(&all)))
        (behind("Table: compile jobs", &jobs(&all)))
    }
}

fn times(all: &[Seen<'_, BuildDetail>]) -> Picture {
    type Part = (&'static str, fn(&BuildDetail) -> Nanos);
    let parts: [Part; 4] = [
        ("wall time", |detail| detail.wall_ns),
        ("of which linking", |detail| detail.link_ns),
        ("CPU time, user", |detail| detail.user_ns),
        ("CPU time, kernel", |detail| detail.system_ns),
    ];
    let row = |(title, part): Part| BarRow {
        title: title.to_owned(),
        items: all
            .iter()
            .map(|seen| {
                let value = part(seen.detail).as_f64();
                Item { ink: Ink(seen.ink), value, interval: (value, value) }
            })
            .collect(),
    };
    bars(parts.map(row).into(), Unit::Nanoseconds, ("Where the time of the compile job went", "time"))
}

/// Lower quarter, median and upper quarter of the times of the files.
fn quarters(detail: &BuildDetail) -> Option<[f64; 3]> {
    let mut times: Vec<f64> = detail.file_ns.iter().map(|time| time.as_f64()).collect();
    times.sort_by(f64::total_cmp);
    let at = |quarter: usize| times.get(times.len().saturating_sub(1) * quarter / 4).copied();
    Some([at(1)?, at(2)?, at(3)?])
}

fn per_file(all: &[Seen<'_, BuildDetail>]) -> Picture {
    let row = |seen: &Seen<'_, BuildDetail>| {
        let [low, value, high] = quarters(seen.detail)?;
        let item = Item { ink: Ink(seen.ink), value, interval: (low, high) };
        Some(BarRow { title: format!("{} at once", seen.detail.jobs), items: vec![item] })
    };
    let rows = merged(all.iter().filter_map(row).collect());
    bars(rows, Unit::Nanoseconds, ("Time to compile one file", "time"))
}

fn jobs(all: &[Seen<'_, BuildDetail>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|seen| {
            let job = seen.detail;
            let file = quarters(job)
                .map_or_else(|| "n/a: no file".to_owned(), |q| value_text(Unit::Nanoseconds, q[1]));
            vec![
                seen.label.clone(),
                job.files.to_string(),
                job.jobs.to_string(),
                job.wall_ns.to_string(),
                job.user_ns.to_string(),
                job.system_ns.to_string(),
                file,
                format!("{} → {}", job.source_bytes, job.image_bytes),
                format!("{:08x}", job.image_crc32),
            ]
        })
        .collect();
    plain_table(
        &[
            "Platform",
            "Files",
            "At once",
            "Wall",
            "User",
            "Kernel",
            "One file",
            "Source → image",
            "CRC-32 of the image",
        ],
        &rows,
    )
}
