//! Pictures of the fixed-time-quantum probe: what is missing over time, and its spectrum with the named sources.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, FtqDetail};
use stats::spectrum::{NoSpectrum, Noise, Source, analyse, band_hz};
use units::metric::Unit;

use super::super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::super::chart::palette::Ink;
use super::super::super::chart::plot::{Series, Stroke};
use super::super::super::figures::details;
use super::super::parts::{Drawing, figure, line, plain_table, scrolling, xs, ys};

const SHARE: Quantity = Quantity::Of(Unit::Share);
/// Columns of the spectrum per factor of ten in frequency; of each the highest line is drawn.
const COLUMNS_PER_DECADE: f64 = 400.0;
/// Lower than this no share is drawn: an empty spectrum would be all axis.
const LEAST_SHARE: f64 = 1e-6;

struct Quanta<'a> {
    ink: usize,
    label: String,
    detail: &'a FtqDetail,
    noise: Result<Noise, NoSpectrum>,
}

pub(in super::super) fn pictures(results: &RunResults) -> Markup {
    let all: Vec<Quanta<'_>> = details(results, ProbeKind::Ftq)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::Ftq(detail) => {
                let noise = analyse(&detail.work, detail.quantum_ns.as_secs_f64());
                Some(Quanta { ink, label, detail, noise })
            }
            _ => None,
        })
        .collect();
    let legend: Vec<(Ink, String)> =
        all.iter().map(|quanta| (Ink(quanta.ink), quanta.label.clone())).collect();
    html! {
        div.solid { (figure("What was taken away, quantum by quantum", "A quiet platform draws a line at the bottom. At 100 % \
            a whole quantum was taken away. Where there are more quanta than the picture has columns, the least and the most \
            disturbed of each column are drawn.",
            &legend, &time_line(&all).draw("Share of each quantum that was taken away, over time"))) }
        div.solid { (figure("At which beat it was taken away", "The spectrum of what is missing. A source that takes time regularly draws \
            a line as high as its share of the time, and more lines at the multiples of its frequency; the mark stands at \
            the frequency itself. Everything else is noise without a beat.",
            &legend, &spectrum(&all).draw("Spectrum of the time taken away, with the periodic sources marked"))) }
        h4 { "Periodic sources" }
        @if let Some(band) = band(&all) { p { (band) } }
        (scrolling("Periodic sources", &sources(&all)))
    }
}

/// Which sources could be seen at all; that of the shortest measurement.
fn band(all: &[Quanta<'_>]) -> Option<String> {
    let bands = noises(all)
        .map(|(quanta, noise)| band_hz(noise.missing.len(), quanta.detail.quantum_ns.as_secs_f64()));
    let (least, most) = bands.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
    Some(format!(
        "Between {} and {} a source can be seen: ten periods of it fit into the measurement (duration_ms), and two quanta \
         into a period (quantum_us). What is slower or faster may be there all the same.",
        Unit::Hertz.format(least),
        Unit::Hertz.format(most)
    ))
}

fn noises<'a>(all: &'a [Quanta<'a>]) -> impl Iterator<Item = (&'a Quanta<'a>, &'a Noise)> {
    all.iter().filter_map(|quanta| Some((quanta, quanta.noise.as_ref().ok()?)))
}

fn time_line(all: &[Quanta<'_>]) -> Drawing {
    let series: Vec<Series> = noises(all)
        .map(|(quanta, noise)| {
            let length = quanta.detail.quantum_ns.as_f64();
            let points = noise.missing.iter().enumerate();
            line(quanta.ink, points.map(|(index, share)| (index as f64 * length, share.max(0.0))).collect())
        })
        .collect();
    Drawing {
        x: Axis::enclosing(
            Scale::FromZero,
            Quantity::Of(Unit::Nanoseconds),
            "time since the start of the probe",
            xs(&series),
        ),
        y: Axis::enclosing(Scale::FromZero, SHARE, "taken away", ys(&series).chain([1.0])),
        series,
        rules: Vec::new(),
    }
}

fn spectrum(all: &[Quanta<'_>]) -> Drawing {
    let mut series: Vec<Series> =
        noises(all).map(|(quanta, noise)| line(quanta.ink, highest(noise))).collect();
    series.extend(noises(all).filter(|(_, noise)| !noise.sources.is_empty()).map(|(quanta, noise)| Series {
        ink: Ink(quanta.ink),
        stroke: Stroke::Marks,
        points: noise.sources.iter().map(|source| (source.frequency_hz, source.share)).collect(),
    }));
    Drawing {
        x: Axis::enclosing(Scale::Log, Quantity::Of(Unit::Hertz), "frequency (logarithmic)", xs(&series)),
        y: Axis::enclosing(Scale::Log, SHARE, "share of the time (logarithmic)", ys(&series)),
        series,
        rules: Vec::new(),
    }
}

/// The highest line of each column of the picture.
fn highest(noise: &Noise) -> Vec<(f64, f64)> {
    let lines = noise.lines.power.iter().enumerate().skip(noise.lines.first());
    let points: Vec<(f64, f64)> = lines
        .map(|(bin, power)| (bin as f64 * noise.lines.step_hz, power.sqrt().max(LEAST_SHARE)))
        .filter(|(hertz, share)| *hertz > 0.0 && share.is_finite())
        .collect();
    let column = |hertz: f64| (hertz.log10() * COLUMNS_PER_DECADE).floor();
    points
        .chunk_by(|a, b| column(a.0).total_cmp(&column(b.0)).is_eq())
        .filter_map(|column| column.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)))
        .collect()
}

fn sources(all: &[Quanta<'_>]) -> Markup {
    let mut rows = Vec::new();
    for quanta in all {
        match &quanta.noise {
            Err(reason) => rows.push(vec![quanta.label.clone(), format!("n/a: {reason}")]),
            Ok(noise) if noise.sources.is_empty() => {
                rows.push(vec![quanta.label.clone(), "nothing periodic stands out of the noise".to_owned()]);
            }
            Ok(noise) => rows.extend(noise.sources.iter().map(|source| row(&quanta.label, source))),
        }
    }
    plain_table(
        &["Platform", "Frequency", "Time taken", "Each time", "Above the noise", "For example"],
        &rows,
    )
}

fn row(label: &str, source: &Source) -> Vec<String> {
    let each_ns = source.share / source.frequency_hz * 1e9;
    vec![
        label.to_owned(),
        Unit::Hertz.format(source.frequency_hz),
        format!("{} of the time", Unit::Share.format(source.share)),
        Unit::Nanoseconds.format(each_ns),
        format!("{:.0} ×", source.over_noise),
        example(source.frequency_hz).to_owned(),
    ]
}

/// What is known to have such a beat; a hint where to look, no proof.
fn example(frequency_hz: f64) -> &'static str {
    const KNOWN: [(f64, &str); 9] = [
        (10.0, "a CPU quota (cgroup cpu.max, 100 ms period)"),
        (33.333, "time slices of 30 ms (Xen's credit scheduler)"),
        (60.0, "a program that draws 60 frames a second"),
        (64.0, "the timer tick of Windows (15.6 ms)"),
        (100.0, "the timer tick (CONFIG_HZ=100)"),
        (250.0, "the timer tick (CONFIG_HZ=250)"),
        (300.0, "the timer tick (CONFIG_HZ=300)"),
        (1000.0, "the timer tick (CONFIG_HZ=1000)"),
        (1024.0, "a real-time clock or a multimedia timer"),
    ];
    KNOWN.iter().find(|(known, _)| (frequency_hz / known - 1.0).abs() < 0.002).map_or("", |(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_called_by_its_name_and_nothing_else_is() {
        assert_eq!(example(250.02), "the timer tick (CONFIG_HZ=250)");
        assert_eq!(example(251.0), "");
    }
}
