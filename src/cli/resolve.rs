//! From arguments to the experiment that is run: shipped or from a file, with what the command line changes.

use std::path::Path;

use anyhow::{Context, anyhow, bail};

use super::args::MeasureArgs;
use super::file;
use campaign::shipped;
use model::experiment::{Accelerator, Experiment, MAX_FILE_BYTES, PlatformSpec, SshSpec};
use probes::ProbeKind;
use probes::params::ProbeSpec;
use units::names::PlatformKind;

/// The experiment as the command line asks for it: checked, seed filled in.
pub fn experiment(args: &MeasureArgs, fresh_seed: u64) -> anyhow::Result<Experiment> {
    let name = args.experiment.as_deref().unwrap_or(if args.quick { "quick" } else { "default" });
    let mut experiment = load(name)?;
    if !args.platforms.is_empty() {
        experiment.platforms = platforms(&args.platforms, &experiment)?;
        experiment.baseline = None;
    }
    keep_probes(&mut experiment, &args.probe)?;
    if let Some(rounds) = &args.rounds {
        (experiment.repeat.min, experiment.repeat.max) = parse_rounds(rounds)?;
    }
    if let Some(budget) = args.budget_s {
        experiment.repeat.budget_s = budget;
    }
    if let Some(percent) = args.target_percent {
        experiment.repeat.target_percent = percent;
    }
    experiment.repeat.until_decided |= args.until_decided;
    settings(&mut experiment, args)?;
    experiment.seed = Some(args.seed.or(experiment.seed).unwrap_or(fresh_seed));
    experiment.baseline = Some(experiment.baseline_label().to_owned());
    experiment.check()?;
    Ok(experiment)
}

/// A shipped experiment by name, or a file.
pub fn load(name: &str) -> anyhow::Result<Experiment> {
    let looks_like_file =
        name.contains('/') || Path::new(name).extension().is_some() || Path::new(name).exists();
    if !looks_like_file {
        return Ok(shipped::get(name)?);
    }
    let text = file::read("experiment ", Path::new(name), MAX_FILE_BYTES)?;
    Experiment::from_toml(&text).with_context(|| format!("experiment {name} cannot be used"))
}

/// Platforms as named on the command line. A label of the experiment means that platform with its settings.
fn platforms(names: &[String], experiment: &Experiment) -> anyhow::Result<Vec<PlatformSpec>> {
    let mut chosen: Vec<PlatformSpec> = Vec::new();
    for name in names {
        let known = experiment.platforms.iter().find(|platform| platform.label == *name).cloned();
        let mut platform = known.map_or_else(|| parse_platform(name), Ok)?;
        let same =
            chosen.iter().filter(|other| other.label.split('#').next() == Some(&platform.label)).count();
        if same > 0 {
            platform.label = format!("{}#{}", platform.label, same + 1);
        }
        chosen.push(platform);
    }
    Ok(chosen)
}

/// `KIND` or `KIND:VARIANT`.
fn parse_platform(text: &str) -> anyhow::Result<PlatformSpec> {
    let (kind, variant) = text.split_once(':').map_or((text, None), |(kind, variant)| (kind, Some(variant)));
    let kind = kind.parse::<PlatformKind>().map_err(|unknown| {
        let is_experiment =
            Path::new(text).extension().is_some_and(|end| end == "toml") || shipped::text(text).is_ok();
        let hint = if is_experiment {
            format!("; an experiment is named with --experiment {text}")
        } else {
            String::new()
        };
        anyhow!("{unknown}{hint}")
    })?;
    let mut platform = PlatformSpec::of_kind(kind);
    match (platform.kind, variant) {
        (_, None) => {}
        (PlatformKind::Container, Some(runtime)) => {
            platform.runtime = Some(runtime.to_owned());
            platform.label = label_of("container", runtime);
        }
        (PlatformKind::Vm, Some("kvm")) => {
            platform.accelerator = Accelerator::Kvm;
            "vm-kvm".clone_into(&mut platform.label);
        }
        (PlatformKind::Vm, Some("tcg")) => {
            platform.accelerator = Accelerator::Tcg;
            "vm-tcg".clone_into(&mut platform.label);
        }
        (PlatformKind::Vm, Some(other)) => {
            bail!("unknown accelerator \"{other}\" in \"{text}\": wanted kvm or tcg")
        }
        (PlatformKind::Ssh, Some(destinations)) => {
            platform.ssh = Some(SshSpec {
                destinations: destinations.split(',').map(str::to_owned).collect(),
                port: None,
                identity: None,
                known_hosts: None,
                config: None,
                addresses: Vec::new(),
                scratch: None,
            });
        }
        (kind, Some(_)) => bail!("platform \"{text}\": {kind} has no variants, write \"{kind}\""),
    }
    Ok(platform)
}

/// `container-runc` from `runc`, also from `/usr/bin/runc`.
fn label_of(kind: &str, variant: &str) -> String {
    let name =
        Path::new(variant).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(20).collect();
    format!("{kind}-{safe}")
}

fn keep_probes(experiment: &mut Experiment, wanted: &[String]) -> anyhow::Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let wanted =
        wanted.iter().map(|name| Ok(name.parse::<ProbeKind>()?)).collect::<anyhow::Result<Vec<_>>>()?;
    let measured: Vec<ProbeKind> = experiment.probes.specs().iter().map(ProbeSpec::kind).collect();
    if let Some(absent) = wanted.iter().find(|probe| !measured.contains(probe)) {
        bail!(
            "--probe {absent}: experiment \"{}\" does not measure it; add [probe.{absent}] to a file",
            experiment.name
        );
    }
    experiment.probes.retain(&wanted);
    for load in &mut experiment.loads {
        if let Some(probes) = &mut load.probes {
            probes.retain(|probe| wanted.contains(probe));
        }
    }
    experiment.loads.retain(|load| load.probes.as_ref().is_none_or(|probes| !probes.is_empty()));
    for layout in &mut experiment.layouts {
        if let Some(probes) = &mut layout.probes {
            probes.retain(|probe| wanted.contains(probe));
        }
    }
    experiment.layouts.retain(|layout| layout.probes.as_ref().is_none_or(|probes| !probes.is_empty()));
    Ok(())
}

/// `N` or `MIN..MAX`.
fn parse_rounds(text: &str) -> anyhow::Result<(u32, u32)> {
    let wrong = || anyhow!("--rounds {text}: wanted N or MIN..MAX, for example 10 or 5..20");
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    Ok((min.parse().map_err(|_| wrong())?, max.trim_start_matches('=').parse().map_err(|_| wrong())?))
}

/// Settings given once for all platforms they fit.
fn settings(experiment: &mut Experiment, args: &MeasureArgs) -> anyhow::Result<()> {
    let given = [
        ("--kernel", &args.tools.kernel, PlatformKind::Vm),
        ("--modules", &args.tools.modules, PlatformKind::Vm),
        ("--qemu", &args.tools.qemu, PlatformKind::Vm),
        ("--runtime", &args.runtime, PlatformKind::Container),
    ];
    for (flag, value, kind) in given {
        let Some(value) = value else { continue };
        let mut fitting = experiment.platforms.iter_mut().filter(|platform| platform.kind == kind).peekable();
        if fitting.peek().is_none() {
            bail!("{flag} is a setting of platform \"{kind}\", which is not measured here");
        }
        for platform in fitting {
            let slot = match flag {
                "--kernel" => &mut platform.kernel,
                "--modules" => &mut platform.modules,
                "--qemu" => &mut platform.qemu,
                _ => &mut platform.runtime,
            };
            *slot = Some(value.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Arguments, Verb};
    use model::classes::{Beside, Condition};
    use model::journal::Cell;

    fn resolve(line: &str) -> anyhow::Result<Experiment> {
        let words = ["bulkhead", "measure"].into_iter().chain(line.split_whitespace());
        match Arguments::try_parse_from(words)?.verb {
            Verb::Measure(args) => experiment(&args, 42),
            _ => bail!("not measure"),
        }
    }

    #[test]
    fn a_platform_named_twice_gets_a_label_of_its_own() {
        let experiment = resolve("native native fake").unwrap();
        let labels: Vec<_> = experiment.platforms.iter().map(|platform| platform.label.as_str()).collect();
        assert_eq!(labels, ["native", "native#2", "fake"]);
        assert_eq!(experiment.baseline.as_deref(), Some("native"));
        assert_eq!(experiment.seed, Some(42));
    }

    #[test]
    fn variants_choose_runtime_and_accelerator() {
        let experiment = resolve("container:/opt/bin/crun vm:tcg --seed 7").unwrap();
        let [container, vm] = experiment.platforms.as_slice() else { panic!("two platforms") };
        assert_eq!(
            (container.label.as_str(), container.runtime.as_deref()),
            ("container-crun", Some("/opt/bin/crun"))
        );
        assert_eq!((vm.label.as_str(), vm.accelerator), ("vm-tcg", Accelerator::Tcg));
        assert_eq!(experiment.seed, Some(7));
    }

    #[test]
    fn probes_and_rounds_narrow_the_experiment() {
        let experiment = resolve("native --probe gap --rounds 3..9").unwrap();
        assert_eq!(experiment.probes.specs().len(), 1);
        assert_eq!((experiment.repeat.min, experiment.repeat.max), (3, 9));
        assert!(experiment.loads.iter().all(|load| load.probes.as_deref() == Some(&[ProbeKind::Gap])));
    }

    #[test]
    fn layouts_keep_the_probes_that_are_measured_and_go_with_the_last_one() {
        let with = |line: &str| resolve(&format!("native --experiment full {line}")).unwrap();
        let one = with("--probe gap --probe net");
        assert!(one.layouts.iter().all(|layout| layout.probes.as_deref() == Some(&[ProbeKind::Net])));
        assert_eq!(one.layouts.len(), 2);
        assert!(with("--probe gap").layouts.is_empty());
    }

    /// What a verdict says would measure all that its class looks at does so.
    #[test]
    fn the_experiment_full_measures_what_every_shipped_class_looks_at() {
        for class in model::classes::shipped().unwrap().classes {
            let metrics = |condition: &Condition| -> Vec<ProbeKind> {
                let tail = condition.tail.iter().map(|entry| entry.metric.probe);
                condition.metric.iter().map(|metric| metric.probe).chain(tail).collect()
            };
            let probes: Vec<ProbeKind> = class.conditions.iter().flat_map(metrics).collect();
            let words: Vec<String> = probes.iter().map(|probe| format!("--probe {probe}")).collect();
            let cells = resolve(&format!("native --experiment full {}", words.join(" "))).unwrap().cells();
            for condition in &class.conditions {
                for probe in metrics(condition) {
                    let counts = |cell: &Cell| match cell.neighbour {
                        Some(neighbour) => condition.neighbours.counts(neighbour),
                        None => condition.neighbours == Beside::Alone,
                    };
                    let measured = cells.iter().any(|cell| cell.probe == probe && counts(cell));
                    assert!(measured, "{}: {probe} for \"{}\"", class.name, condition.title);
                }
            }
        }
    }

    #[test]
    fn bad_input_says_what_was_wanted() {
        for (line, part) in [
            ("natve", "did you mean \"native\"?"),
            ("native --probe gapp", "did you mean \"gap\"?"),
            ("native --rounds x", "wanted N or MIN..MAX"),
            ("native --kernel k", "not measured here"),
            ("vm:xen", "wanted kvm or tcg"),
            ("native:fast", "has no variants"),
            ("--experiment defualt", "did you mean \"default\"?"),
            ("--experiment /no/such.toml", "cannot be read"),
        ] {
            let error = format!("{:#}", resolve(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
